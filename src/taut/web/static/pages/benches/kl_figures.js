// The figures of the KL bench: the estimators' curves, and two distributions to be dragged.
import { fixed, percent, signed } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { ESTIMATORS, estimate } from "taut/maths/kl.js";
import { AxisX, AxisY, Figure, Handle, line, linear } from "taut/widgets/svg.js";

const STYLES = { k1: ["var(--s1)", ""], k2: ["var(--s2)", "6 3"], k3: ["var(--s3)", "2 3"] };
const XS = Array.from({ length: 121 }, (_, at) => -3 + at / 20);

/** Value or gradient of k1, k2 and k3 against x, read at an x that is dragged. */
export function CurveFigure({ title, what, x: at, setX }) {
  const height = 260;
  const draw = (width) => {
    const x = linear([-3, 3], [40, width - 14]);
    const y = linear([-3.2, 4.2], [height - 44, 12]);
    const inside = (value) => (value > 4.3 || value < -3.3 ? NaN : y(value));
    return html`<${AxisX} scale=${x} y=${height - 44} grid=${12} label="x = log π_ref − log π" /><${AxisY} scale=${y} x=${40} grid=${width - 14} count=${6} />
      <line x1=${x(-3)} x2=${x(3)} y1=${y(0)} y2=${y(0)} stroke="var(--rule-2)" />
      <line x1=${x(at)} x2=${x(at)} y1=${12} y2=${height - 44} stroke="var(--ink-3)" stroke-dasharray="3 3" />
      ${Object.entries(STYLES).map(([name, [color, dash]]) => html`<g key=${name}>
        <path d=${line(XS.map((value) => [x(value), inside(ESTIMATORS[name][what](value))]))} fill="none" stroke=${color} stroke-width="2" stroke-dasharray=${dash} />
        <circle cx=${x(at)} cy=${inside(estimate(name, at)[what]) || -20} r="4" fill=${color} /></g>`)}
      <${Handle} x=${x(at)} y=${height - 44} r=${7} label="x" value=${at} min=${-3} max=${3} text=${fixed(at, 2)} onDrag=${(pixel) => setX(x.invert(pixel))} onKey=${(dx, dy) => setX(at + 0.05 * (dx + dy))} />`;
  };
  const said = Object.keys(STYLES).map((name) => `${name} ${signed(estimate(name, at)[what], 3)}`).join(", ");
  return html`<figure class="figure"><div class="bench-title"><h3>${title}</h3><span class="small">${Object.entries(STYLES).map(([name, [color, dash]]) => html`<span class="bench-key"><svg width="24" height="8" aria-hidden="true"><path d="M0 4h24" stroke=${color} stroke-width="2" stroke-dasharray=${dash} /></svg>${name}</span>`)}</span></div>
    <${Figure} label=${`${title} of k1, k2 and k3 against x. At x = ${fixed(at, 2)}: ${said}`} height=${height} draw=${draw} /></figure>`;
}

/** Four tokens' probabilities under policy and reference, as bars whose tops are dragged. */
export function DistributionFigure({ policy, ref, movePolicy, moveRef }) {
  const height = 240;
  const draw = (width) => {
    const x = linear([-0.5, 3.5], [40, width - 4]);
    const y = linear([0, 1], [height - 28, 14]);
    const half = Math.min(34, (x(1) - x(0)) * 0.34);
    const bar = (kind, part, token, offset, color, move) => html`<g key=${`${kind}${token}`}>
      <rect x=${x(token) + offset} width=${half - 2} y=${y(part)} height=${y(0) - y(part)} fill=${color} opacity="0.8" />
      <${Handle} x=${x(token) + offset + half / 2 - 1} y=${y(part)} r=${6} color=${color} label=${`${kind}, token ${"abcd"[token]}`} value=${part} min=${0.01} max=${0.97} text=${percent(part)}
        onDrag=${(_, pixel) => move(token, y.invert(pixel))} onKey=${(dx, dy) => move(token, part + 0.01 * (dx + dy))} /></g>`;
    return html`<${AxisY} scale=${y} x=${40} grid=${width - 4} at=${[0, 0.25, 0.5, 0.75, 1]} format=${(value) => percent(value, 0)} />
      ${policy.map((part, token) => bar("π", part, token, -half, "var(--s1)", movePolicy))}
      ${ref.map((part, token) => bar("reference", part, token, 1, "var(--s7)", moveRef))}
      ${[0, 1, 2, 3].map((token) => html`<text key=${token} class="bench-token" x=${x(token)} y=${height - 8} text-anchor="middle">${"abcd"[token]}</text>`)}`;
  };
  return html`<figure class="figure"><div class="bench-title"><h3>Four tokens</h3><span class="small muted"><span class="swatch" style="--swatch: var(--s1)"></span> π <span class="swatch" style="--swatch: var(--s7)"></span> reference: drag the tops</span></div>
    <${Figure} label=${`Probabilities of four tokens. π: ${policy.map((part) => percent(part)).join(", ")}. Reference: ${ref.map((part) => percent(part)).join(", ")}`} height=${height} draw=${draw} /></figure>`;
}
