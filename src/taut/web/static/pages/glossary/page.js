import { html } from "taut/lib/html.js";

export function GlossaryPage(properties) {
  return html`<h1>Glossary</h1><p class="lead">${Object.values(properties).join(" · ")}</p>`;
}
