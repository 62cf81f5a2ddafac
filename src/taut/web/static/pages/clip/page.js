import { html } from "taut/lib/html.js";

export function ClipPage(properties) {
  return html`<h1>Clip</h1><p class="lead">${Object.values(properties).join(" · ")}</p>`;
}
