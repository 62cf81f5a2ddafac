import { html } from "taut/lib/html.js";

export function BenchesPage(properties) {
  return html`<h1>Benches</h1><p class="lead">${Object.values(properties).join(" · ")}</p>`;
}
