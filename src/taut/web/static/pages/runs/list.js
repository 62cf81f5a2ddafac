import { html } from "taut/lib/html.js";

export function RunsPage(properties) {
  return html`<h1>Runs</h1><p class="lead">${Object.values(properties).join(" · ")}</p>`;
}
