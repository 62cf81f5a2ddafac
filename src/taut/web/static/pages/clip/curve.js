// The objective of one token against its ratio: clipped solid, unclipped dashed, the flat part as a red band.

import { html } from 'taut/lib/html.js';
import { MOST } from 'taut/maths/clip_walk.js';
import { Flat, Plane, dragging, scales } from 'taut/pages/clip/plane.js';
import { fixed, pushInWords, resultOf } from 'taut/pages/clip/words.js';
import { Hatch, line as path, useWidth } from 'taut/widgets/svg.js';

const SAMPLES = 250;

function heights(advantage) {
  const size = Math.abs(advantage) > 1 ? 2 : 1;
  const [low, high] = [-0.5 * size, 2.5 * size];
  return advantage < 0 ? [-high, -low] : [low, high];
}

/** Where the objective is flat: stretches [from, to] of ρ. */
function flatStretches({ advantage, clipLow, clipHigh, dualClip }) {
  if (advantage > 0) return 1 + clipHigh < MOST ? [[1 + clipHigh, MOST]] : [];
  if (advantage === 0) return [];
  const low = clipLow < 1 ? [[0, 1 - clipLow]] : [];
  return dualClip ? [...low, [dualClip, MOST]] : low;
}

function Lines({ scale, setting }) {
  const ratios = Array.from({ length: SAMPLES + 1 }, (_, index) => (MOST * Math.max(index, 0.01)) / SAMPLES);
  ratios.push(1 + setting.clipHigh, Math.max(1e-4, 1 - setting.clipLow), setting.dualClip ?? 1);
  ratios.sort((a, b) => a - b);
  const line = (height) => path(ratios.map((ratio) => [scale.x(ratio), scale.y(height(ratio))]));
  return html`
    <path class="unclipped" d=${line((ratio) => ratio * setting.advantage)} />
    <path class="clipped" d=${line((ratio) => resultOf({ ...setting, ratio }).objective)} />`;
}

function Band({ id, scale, setting }) {
  const height = scale.bottom - scale.top;
  const low = Math.max(0, 1 - setting.clipLow);
  const high = Math.min(MOST, 1 + setting.clipHigh);
  return html`
    <rect class="range" x=${scale.x(low)} width=${scale.x(high) - scale.x(low)} y=${scale.top} height=${height} />
    ${flatStretches(setting).map(([from, to]) => html`<${Flat} hatch=${`${id}-hatch`} x=${scale.x(from)} y=${scale.top}
      width=${scale.x(to) - scale.x(from)} height=${height} />`)}
    <line class="edge" x1=${scale.x(low)} x2=${scale.x(low)} y1=${scale.top} y2=${scale.bottom} />
    <line class="edge" x1=${scale.x(high)} x2=${scale.x(high)} y1=${scale.top} y2=${scale.bottom} />
    <line class="old" x1=${scale.x(1)} x2=${scale.x(1)} y1=${scale.top} y2=${scale.bottom} />`;
}

function Push({ scale, here, advantage }) {
  const x = scale.x(here.ratio);
  const y = scale.y(here.objective);
  if (here.flat || here.slope === 0) return null;
  const way = here.slope > 0 ? 1 : -1;
  const length = 18 + 22 * Math.min(1, Math.abs(advantage) / 2);
  const tip = x + way * length;
  return html`<path class="push" d=${`M${x + way * 11} ${y}H${tip}m${-6 * way} -5l${6 * way} 5l${-6 * way} 5`} />`;
}

function Trail({ scale, states, name }) {
  const passed = states.slice(0, -1);
  return passed.map((state, index) => html`
    <circle class=${`trail ${name}`} cx=${scale.x(state.ratio)} cy=${scale.y(state.objective)}
      r="4" style=${`opacity: ${0.3 + (0.6 * (index + 1)) / states.length}`} />`);
}

/** `states` of the token, newest last, and of its unclipped `twin`. `onRatio(ρ)` follows the pointer. */
export function Curve({ id = 'curve', setting, states, twin = [], onRatio, height: fixedHeight }) {
  const [ref, width] = useWidth();
  const height = fixedHeight ?? Math.round(Math.min(620, Math.max(280, width * 0.5)));
  const yRange = heights(setting.advantage);
  const scale = scales({ width, height, xRange: [0, MOST], yRange });
  const here = states.at(-1);
  const other = twin.at(-1);
  const step = (yRange[1] - yRange[0]) / 6;
  const ticks = Array.from({ length: 7 }, (_, index) => yRange[0] + index * step);
  const narrow = width < 480;
  const said = `Objective against ratio. At ρ = ${fixed(here.ratio)} it is ${fixed(here.objective)}. `
    + pushInWords({ ...setting, ratio: here.ratio });
  const edges = html`
    <text class="mark" x=${scale.x(1 - setting.clipLow) - 5} y=${scale.bottom - 8} text-anchor="end">1 − ε</text>
    <text class="mark" x=${scale.x(1 + setting.clipHigh) + 5} y=${scale.bottom - 8}>1 + ε</text>
    ${setting.dualClip && html`<text class="mark" x=${scale.x(setting.dualClip) + 5} y=${scale.bottom - 8}>c</text>`}`;
  return html`
    <div ref=${ref} class="plot">
      <svg role="img" aria-label=${said} width=${width} height=${height} class=${onRatio ? 'draggable' : ''}
        ...${onRatio ? dragging((x) => onRatio(scale.xAt(x))) : {}}>
        <defs><${Hatch} id=${`${id}-hatch`} /></defs>
        <${Plane} id=${id} scale=${scale} xTicks=${narrow ? [0, 1, 2] : [0, 0.5, 1, 1.5, 2, 2.5]} yTicks=${ticks}
          xLabel="ratio ρ" yLabel="objective">
          <${Band} id=${id} scale=${scale} setting=${setting} />
          <${Lines} scale=${scale} setting=${setting} />
          ${edges}
          <${Trail} scale=${scale} states=${twin} name="twin" />
          ${other && twin.length > 1 && html`<circle class="point twin" r="7" cx=${scale.x(other.ratio)}
            cy=${scale.y(other.objective)} />`}
          <${Trail} scale=${scale} states=${states} name="own" />
          <${Push} scale=${scale} here=${here} advantage=${setting.advantage} />
          <circle class="point own" r="8" cx=${scale.x(here.ratio)} cy=${scale.y(here.objective)} />
        <//>
      </svg>
    </div>`;
}
