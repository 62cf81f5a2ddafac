import { html } from "taut/lib/html.js";

export function StartPage(properties) {
  return html`<h1>Start</h1><p class="lead">${Object.values(properties).join(" · ")}</p>`;
}
