import { html } from "taut/lib/html.js";

export function PromptPage(properties) {
  return html`<h1>Prompt</h1><p class="lead">${Object.values(properties).join(" · ")}</p>`;
}
