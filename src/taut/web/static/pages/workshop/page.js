import { html } from "taut/lib/html.js";

export function WorkshopPage(properties) {
  return html`<h1>Workshop</h1><p class="lead">${Object.values(properties).join(" · ")}</p>`;
}
