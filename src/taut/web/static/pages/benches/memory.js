import { html } from "taut/lib/html.js";

export function MemoryBench() {
  return html`<p>soon</p>`;
}
