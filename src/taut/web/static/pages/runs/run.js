import { html } from "taut/lib/html.js";

export function RunPage(properties) {
  return html`<h1>Run</h1><p class="lead">${Object.values(properties).join(" · ")}</p>`;
}
