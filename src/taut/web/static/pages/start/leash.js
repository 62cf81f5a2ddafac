// The picture of the start page: the clipped objective of a token of advantage 1.
import { html } from "taut/lib/html.js";
import { AxisX, Figure, Hatch, linear } from "taut/widgets/svg.js";

const WORDS = "The objective of a token with advantage 1 against its ratio: it rises with the ratio up to 1.2 and is flat from there on.";

function drawing(width) {
  const x = linear([0.5, 1.6], [12, width - 12]);
  const y = linear([0.4, 1.65], [186, 14]);
  return html`<defs><${Hatch} id="leash-flat" /></defs>
    <rect x=${x(1.2)} y="14" width=${x(1.6) - x(1.2)} height="172" fill="var(--clip-soft)" opacity="0.55" /><rect x=${x(1.2)} y="14" width=${x(1.6) - x(1.2)} height="172" fill="url(#leash-flat)" opacity="0.5" />
    <path d=${`M${x(1.2)} ${y(1.2)}L${x(1.6)} ${y(1.6)}`} class="leash-free" /><path d=${`M${x(0.5)} ${y(0.5)}L${x(1.2)} ${y(1.2)}H${x(1.6)}`} class="leash-line" />
    <circle cx=${x(1)} cy=${y(1)} r="6" fill="var(--ink)" /><circle cx=${x(1.2)} cy=${y(1.2)} r="7" fill="var(--s5)" stroke="var(--paper)" stroke-width="2" />
    <text class="leash-word" x=${x(1) - 8} y=${y(1) - 10} text-anchor="end">where it was sampled</text><text class="leash-word strong" x=${x(1.22)} y=${y(1.2) + 24}>taut: no gradient</text>
    <${AxisX} scale=${x} y=${186} at=${[0.6, 0.8, 1, 1.2, 1.4]} label="ratio ρ" />`;
}

export function Leash() {
  return html`<${Figure} class="leash" label=${WORDS} height=${226} draw=${drawing} />`;
}
