// A small curve in a line of text. The number it ends at stands beside it, so it's no news to a screen reader.
import { html } from "taut/lib/html.js";
import { number } from "taut/lib/number.js";

/** `values` as in JSON; what isn't finite leaves a gap. */
export function Sparkline({ values, width = 84, height = 20 }) {
  const points = values.map(number);
  const finite = points.filter(Number.isFinite);
  if (finite.length < 2) return null;
  const low = Math.min(...finite);
  const span = Math.max(...finite) - low || 1;
  const x = (place) => ((place / (points.length - 1)) * (width - 2) + 1).toFixed(1);
  const y = (value) => (height - 2 - ((value - low) / span) * (height - 4)).toFixed(1);
  let pen = "M";
  const path = points.map((value, place) => {
    if (!Number.isFinite(value)) { pen = "M"; return ""; }
    const drawn = `${pen}${x(place)} ${y(value)}`;
    pen = "L";
    return drawn;
  }).join("");
  return html`<svg class="sparkline" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} aria-hidden="true"><path d=${path} /></svg>`;
}
