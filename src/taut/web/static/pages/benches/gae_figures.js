// The three figures of the GAE bench, one above the other over the same tokens.
import { signed } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { AxisY, Figure, Handle, line, linear } from "taut/widgets/svg.js";

const ENDED = ["17", "×", "6", "is", "10", "2", ".", "end"];
const CUT = [...ENDED.slice(0, -1), "So"]; // it would have gone on
export const COUNT = ENDED.length;

/** The reply's tokens: a reply that was cut has no end. */
export function tokensOf(cut) {
  return cut ? CUT : ENDED;
}

export const LOW = -1;
export const HIGH = 1.5;
const LEFT = 46;

/** Where token t stands; the place after the last is the bootstrap's. */
function places(width) {
  return linear([-0.5, COUNT + 0.25], [LEFT, width - 6]);
}

function Zero({ x, y }) {
  return html`<line x1=${x.range[0]} x2=${x.range[1]} y1=${y} y2=${y} stroke="var(--rule-2)" aria-hidden="true" />`;
}

function Chosen({ x, chosen, top, bottom }) {
  const half = (x(1) - x(0)) / 2;
  return html`<rect x=${x(chosen) - half + 2} y=${top} width=${half * 2 - 4} height=${bottom - top} rx="4" fill="var(--accent-soft)" opacity="0.55" />`;
}

/** The words of the reply; a press chooses a token. */
function Words({ tokens, x, y, chosen, choose }) {
  return html`<g>${tokens.map((word, t) => html`<text key=${t} class="bench-token" x=${x(t)} y=${y} text-anchor="middle" data-chosen=${t === chosen || undefined} onClick=${() => choose(t)}>${word}</text>`)}</g>`;
}

/** A stem from 0, drawn up or down in the colours of a sign, with a cap that tells them apart without hue. */
function Bar({ x, zero, y, width, value }) {
  const up = value >= 0;
  return html`<rect x=${x - width / 2} width=${width} y=${Math.min(zero, y)} height=${Math.abs(y - zero)} fill=${up ? "var(--up)" : "var(--down)"} opacity="0.85" />`;
}

function Title({ children, note }) {
  return html`<div class="bench-title"><h3>${children}</h3>${note && html`<span class="muted small">${note}</span>`}</div>`;
}

export function InputFigure({ tokens, rewards, shownValues, critic, cut, bootstrap, chosen, choose, setReward, setValue, moveBootstrap }) {
  const height = 210;
  const draw = (width) => {
    const x = places(width);
    const y = linear([LOW, HIGH], [height - 34, 12]);
    const aside = Math.min(9, (x(1) - x(0)) / 5);
    const handle = (kind, label, t, value, move, color, offset) => html`<${Handle} key=${`${kind}${t}`} x=${x(t) + offset} y=${y(value)} r=${6} color=${color} label=${label} value=${value} min=${LOW} max=${HIGH} text=${signed(value, 2)}
      onDrag=${(_, pixel) => { if (t < COUNT) choose(t); move(y.invert(pixel)); }} onKey=${(dx, dy) => move(value + 0.05 * (dx + dy))} />`;
    return html`<${Chosen} ...${{ x, chosen }} top=${6} bottom=${height - 8} />
      <${AxisY} scale=${y} x=${LEFT} grid=${width - 6} at=${[-1, -0.5, 0, 0.5, 1, 1.5]} />
      <${Zero} x=${x} y=${y(0)} />
      ${critic && html`<path d=${line([...shownValues.map((value, t) => [x(t) + aside, y(value)]), ...(cut ? [[x(COUNT), y(bootstrap)]] : [])])} fill="none" stroke="var(--s3)" stroke-width="1.5" />`}
      ${rewards.map((reward, t) => html`<line key=${t} x1=${x(t) - aside} x2=${x(t) - aside} y1=${y(0)} y2=${y(reward)} stroke="var(--s5)" stroke-width="4" />`)}
      ${rewards.map((reward, t) => handle("r", `Reward of token ${t + 1}, ${tokens[t]}`, t, reward, (value) => setReward(t, value), "var(--s5)", -aside))}
      ${critic && shownValues.map((value, t) => handle("v", `Value before token ${t + 1}, ${tokens[t]}`, t, value, (moved) => setValue(t, moved), "var(--s3)", aside))}
      ${critic && cut && handle("b", "Value after the last token", COUNT, bootstrap, moveBootstrap, "var(--s8)", 0)}
      <${Words} ...${{ tokens, x, chosen, choose }} y=${height - 12} />`;
  };
  const note = html`<span class="swatch" style="--swatch: var(--s5)"></span> reward r <span class="swatch" style="--swatch: var(--s3)"></span> value V${critic && cut ? html` <span class="swatch" style="--swatch: var(--s8)"></span> V after the cut` : ""}: drag them`;
  return html`<figure class="figure"><${Title} note=${note}>Rewards and values</${Title}><${Figure} label="Rewards and values of the reply's tokens, to be dragged" height=${height} draw=${draw} /></figure>`;
}

/** A domain that holds the values and 0, in round numbers. */
function domain(values) {
  const size = Math.max(0.5, ...values.map(Math.abs)) * 1.1;
  return [Math.min(...values) < 0 ? -size : -size * 0.15, Math.max(...values) > 0 ? size : size * 0.15];
}

export function DeltaFigure({ tokens, deltas, weights, chosen, choose }) {
  const height = 190;
  const draw = (width) => {
    const x = places(width);
    const y = linear(domain([...deltas, 1]), [height - 34, 12]);
    const bar = Math.min(26, (x(1) - x(0)) * 0.42);
    return html`<${Chosen} ...${{ x, chosen }} top=${6} bottom=${height - 8} />
      <${AxisY} scale=${y} x=${LEFT} grid=${width - 6} count=${4} /><${Zero} x=${x} y=${y(0)} />
      ${deltas.map((delta, t) => html`<rect key=${t} x=${x(t) - bar / 2} width=${bar} y=${Math.min(y(0), y(delta))} height=${Math.abs(y(delta) - y(0))} fill="none" stroke=${delta >= 0 ? "var(--up)" : "var(--down)"} />`)}
      ${deltas.map((delta, t) => html`<${Bar} key=${`w${t}`} x=${x(t)} zero=${y(0)} y=${y(delta * weights[t])} width=${bar} value=${delta} />`)}
      <path d=${line(weights.map((weight, t) => [x(t), t < chosen ? NaN : y(weight)]))} fill="none" stroke="var(--ink)" stroke-dasharray="4 3" />
      ${weights.map((weight, t) => t >= chosen && html`<circle key=${`k${t}`} cx=${x(t)} cy=${y(weight)} r="3" fill="var(--ink)" />`)}
      <${Words} ...${{ tokens, x, chosen, choose }} y=${height - 12} />`;
  };
  const said = deltas.map((delta, t) => `token ${t + 1}: δ ${signed(delta, 2)}, weight ${weights[t].toFixed(2)}`).join("; ");
  return html`<figure class="figure"><${Title} note=${`outline δ, filled (γλ)ˡ δ as “${tokens[chosen]}” counts it, dots the kernel (γλ)ˡ; press a word to choose it`}>TD errors and the kernel</${Title}><${Figure} label=${`TD errors and the kernel of token ${chosen + 1}. ${said}`} height=${height} draw=${draw} /></figure>`;
}

export function AdvantageFigure({ tokens, advantages, returns, chosen, choose }) {
  const height = 190;
  const draw = (width) => {
    const x = places(width);
    const y = linear(domain([...advantages, ...returns]), [height - 34, 12]);
    const bar = Math.min(26, (x(1) - x(0)) * 0.42);
    return html`<${Chosen} ...${{ x, chosen }} top=${6} bottom=${height - 8} />
      <${AxisY} scale=${y} x=${LEFT} grid=${width - 6} count=${4} /><${Zero} x=${x} y=${y(0)} />
      ${advantages.map((value, t) => html`<${Bar} key=${t} x=${x(t)} zero=${y(0)} y=${y(value)} width=${bar} value=${value} />`)}
      ${returns.map((value, t) => html`<path key=${`r${t}`} d=${`M${x(t) - bar / 2 - 3} ${y(value)}h${bar + 6}`} stroke="var(--ink)" stroke-width="2" />`)}
      <${Words} ...${{ tokens, x, chosen, choose }} y=${height - 12} />`;
  };
  const said = advantages.map((value, t) => `token ${t + 1}: advantage ${signed(value, 2)}, return ${signed(returns[t], 2)}`).join("; ");
  return html`<figure class="figure"><${Title} note="bars the advantage A, lines the return A + V">Advantages and returns</${Title}><${Figure} label=${`Advantages and returns. ${said}`} height=${height} draw=${draw} /></figure>`;
}
