// A word with a sign and a colour: the sign says the same as the colour.
import { html } from "taut/lib/html.js";

const SIGNS = { good: "✓", bad: "✕", warn: "!", live: "●", quiet: "·" };

/** `tone` is one of good, bad, warn, live, quiet. */
export function Badge({ tone = "quiet", children, title }) {
  return html`<span class="badge" data-tone=${tone} title=${title}><span aria-hidden="true">${SIGNS[tone]}</span> ${children}</span>`;
}
