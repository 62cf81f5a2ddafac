// π_old as it's set in print: the word behind "_" as a subscript. Prose is kept plain, so that it can be searched.
import { html } from "taut/lib/html.js";

const SUBSCRIPT = /(π)_(old|ref|θ|b)/;

/** `text` with its subscripts, as children of HTML, or of an SVG's text with `svg`. */
export function subscripts(text, svg = false) {
  // split() by two groups gives: before, "π", "old", between, "π", "ref", after
  return text.split(SUBSCRIPT).map((part, at) => {
    if (at % 3 < 2) return part;
    return svg ? html`<tspan class="sub" baseline-shift="sub">${part}</tspan>` : html`<sub>${part}</sub>`;
  });
}
