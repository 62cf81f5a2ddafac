// Beside the tokens: one token's way through the batch, all ratios, and who is clipped where.
import { fixed, percent, whole } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { anatomy, isHeld, ratioHistogram } from "taut/maths/microscope.js";
import { heldWords } from "taut/pages/microscope/paint.js";
import { trackOf } from "taut/pages/microscope/state.js";
import { AxisX, AxisY, Figure, Hatch, line, linear } from "taut/widgets/svg.js";

/** [1 − ε, 1 + ε]; a side that is open is infinite. DPPO bounds probabilities, so its ratios have no such edges. */
function edges({ surrogate, clip_low: low, clip_high: high }) {
  if (surrogate === "dppo") return [-Infinity, Infinity];
  return [low == null ? -Infinity : 1 - low, high == null ? Infinity : 1 + high];
}

export function Track({ batch, moment, token, overlay }) {
  if (token === null) return null;
  const track = trackOf(batch, token, overlay);
  if (!track.length || !batch.columns.mask[token] || !batch.columns.old_logprobs) return null;
  const [low, high] = edges(moment.constants);
  const shown = [...track.map(({ ratio }) => ratio), 1, Number.isFinite(low) ? low : 1, Number.isFinite(high) ? high : 1].filter(Number.isFinite);
  const margin = 0.12 * (Math.max(...shown) - Math.min(...shown)) || 0.1;
  const domain = [Math.max(0, Math.min(...shown) - margin), Math.max(...shown) + margin];
  const count = batch.optimizer_steps.length;
  const draw = (width) => {
    const x = linear([-0.5, count - 0.5], [46, width - 8]);
    const y = linear(domain, [150, 8]);
    const steps = track.flatMap(({ optimizerStep, ratio }, place) => [[x(optimizerStep), y(ratio)], [x(track[place + 1]?.optimizerStep ?? count - 0.5), y(ratio)]]);
    const band = (from, to) => html`<rect x="46" width=${width - 54} y=${y(to)} height=${Math.max(0, y(from) - y(to))} fill="url(#track-hatch)" />`;
    return html`<defs><${Hatch} id="track-hatch" /></defs>
      ${Number.isFinite(high) && high < domain[1] && band(high, domain[1])}${low > domain[0] && band(domain[0], low)}
      <${AxisY} scale=${y} x=${46} count=${4} grid=${width - 8} format=${(value) => fixed(value, 2)} /><${AxisX} scale=${x} y=${150} label="optimiser step" count=${Math.min(count, 8)} format=${(value) => (Number.isInteger(value) ? String(value + 1) : "")} />
      <line class="track-now" x1=${x(moment.at)} x2=${x(moment.at)} y1="8" y2="150" />
      <path class="track-held" d=${line(steps)} />
      ${track.map(({ optimizerStep, ratio, state }) => (Number.isFinite(ratio)
    ? html`<circle key=${optimizerStep} cx=${x(optimizerStep)} cy=${y(ratio)} r="4.5" class=${isHeld(state) ? "track-dot held" : "track-dot"} />`
    : html`<text key=${optimizerStep} class="track-none" x=${x(optimizerStep)} y="20" text-anchor="middle">${fixed(ratio)}</text>`))}`;
  };
  const words = track.map(({ optimizerStep, ratio, state }) => `step ${optimizerStep + 1}: ${fixed(ratio, 3)}${isHeld(state) ? " held" : ""}`).join("; ");
  return html`<section class="figure"><h3>Its ratio through the batch</h3>
    <p class="small faint">A dot where the token was seen; between, its last value stands. Hatched: out of the range.</p>
    <${Figure} label=${`Ratio of the token at each sighting: ${words}`} height=${190} first=${360} draw=${draw} /></section>`;
}

/** How far log ρ reaches, over all sightings of the batch: the histogram's scale then stays while one scrubs. */
export function reachOf(batch) {
  const { old_logprobs: old, mask, logprobs } = batch.columns;
  let reach = 1.6 * Math.log1p(batch.constants.clip_high ?? 0.2);
  if (!old) return reach;
  for (const reply of batch.replies) {
    for (let at = 0; at < reply.seen.length * reply.length; at += 1) {
      const token = reply.start + (at % reply.length);
      const size = mask[token] ? Math.abs(logprobs[reply.seen_start + at] - old[token]) : 0;
      if (size > reach && Number.isFinite(size)) reach = size;
    }
  }
  return Math.min(reach * 1.02, Math.log(20));
}

export function Histogram({ moment, reach }) {
  const counts = ratioHistogram(moment.ratio, reach);
  const [low, high] = edges(moment.constants).map((edge) => (edge > 0 ? Math.log(edge) : -Infinity));
  const top = Math.max(1, ...counts);
  const draw = (width) => {
    const x = linear([-reach, reach], [8, width - 8]);
    const y = linear([0, Math.sqrt(top)], [110, 8]); // roots, so that a few tokens far out are still seen
    const step = (2 * reach) / counts.length;
    const ticks = [Math.exp(-reach * 0.9), Math.exp(-reach * 0.45), 1, Math.exp(reach * 0.45), Math.exp(reach * 0.9)];
    return html`<defs><${Hatch} id="ratio-hatch" /></defs>
      ${high < reach && html`<rect x=${x(high)} width=${x(reach) - x(high)} y="8" height="102" fill="url(#ratio-hatch)" />`}
      ${low > -reach && html`<rect x=${x(-reach)} width=${x(low) - x(-reach)} y="8" height="102" fill="url(#ratio-hatch)" />`}
      ${Array.from(counts, (count, bin) => count > 0 && html`<rect key=${bin} class=${bin * 2 < counts.length ? "bar below" : "bar above"} x=${x(-reach + bin * step) + 0.5} width=${Math.max(1, x(step) - x(0) - 1)} y=${y(Math.sqrt(count))} height=${110 - y(Math.sqrt(count))} />`)}
      <${AxisX} scale=${x} y=${110} at=${ticks.map(Math.log)} format=${(value) => fixed(Math.exp(value), 2)} label="ratio ρ (log scale)" />`;
  };
  return html`<section class="figure"><h3>Ratios</h3><p class="small faint">Tokens by ρ, heights as square roots; hatched: out of the range.</p>
    <${Figure} label=${`Histogram of ${whole(counts.reduce((sum, count) => sum + count, 0))} ratios; the highest bar has ${top} tokens`} height=${150} first=${360} draw=${draw} /></section>`;
}

const SIGNS = [["positive", "A > 0", "above"], ["zero", "A = 0", null], ["negative", "A < 0", "below"]];

/** Sign of the advantage by side of the range: the held cells are hatched. */
export function Anatomy({ moment }) {
  const { surrogate } = moment.constants;
  const found = anatomy(moment.states, moment.advantages ?? moment.ratio, moment.ratio, moment.constants);
  const share = (count) => (found.tokens ? percent(count / found.tokens) : "–");
  const holds = (side, favoured) => (surrogate === "cispo" ? favoured && side !== "inside" : side === favoured) && surrogate !== "sapo";
  const cell = (name, side, favoured) => html`<td class="number" data-held=${holds(side, favoured) || undefined}>${whole(found[name][side])}<span class="faint small">${share(found[name][side])}</span></td>`;
  return html`<section class="figure"><h3>Who is clipped</h3>
    <table class="anatomy" data-testid="anatomy"><caption class="visually-hidden">Tokens by sign of the advantage and side of the range</caption>
      <thead><tr><th scope="col"></th><th scope="col">below</th><th scope="col">inside</th><th scope="col">above</th></tr></thead>
      <tbody>${SIGNS.filter(([name]) => name !== "zero" || found.zero.below + found.zero.inside + found.zero.above).map(([name, label, favoured]) => html`<tr key=${name}><th scope="row">${label}</th>${["below", "inside", "above"].map((side) => cell(name, side, favoured))}</tr>`)}</tbody></table>
    <p class="small muted">${whole(found.held)} of ${whole(found.tokens)} tokens ${heldWords(surrogate)} (${share(found.held)}); ${whole(found.outside)} outside the range.</p></section>`;
}
