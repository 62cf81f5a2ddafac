import { html } from "taut/lib/html.js";

export function ComparePage(properties) {
  return html`<h1>Compare</h1><p class="lead">${Object.values(properties).join(" · ")}</p>`;
}
