import { html } from "taut/lib/html.js";

export function StepPage(properties) {
  return html`<h1>Step</h1><p class="lead">${Object.values(properties).join(" · ")}</p>`;
}
