// The map of the six regions: the sign of A times ρ below, inside or above the range.

import { html } from 'taut/lib/html.js';
import { MOST } from 'taut/maths/clip_walk.js';
import { Flat, Plane, dragging, scales } from 'taut/pages/clip/plane.js';
import { Python } from 'taut/pages/clip/python.js';
import { pointSnippet } from 'taut/pages/clip/snippets.js';
import { REGIONS, fixed, regionOf, signed } from 'taut/pages/clip/words.js';
import { Handle, Hatch, useWidth } from 'taut/widgets/svg.js';

const HEIGHT = 340;

function span({ side }, { clipLow, clipHigh }) {
  if (side === 'below') return [0, Math.max(0, 1 - clipLow)];
  return side === 'inside' ? [Math.max(0, 1 - clipLow), 1 + clipHigh] : [1 + clipHigh, MOST];
}

const isFlat = ({ sign, side }) => (sign > 0 && side === 'above') || (sign < 0 && side === 'below');

/** A point in the middle of a region, to jump to. */
function middle(region, setting) {
  const [low, high] = span(region, setting);
  return { advantage: region.sign, ratio: Number(((low + Math.min(high, 2)) / 2).toFixed(2)) };
}

function Region({ region, setting, scale, here }) {
  const [low, high] = span(region, setting).map((ratio) => scale.x(Math.min(MOST, ratio)));
  const [top, bottom] = region.sign > 0 ? [scale.y(2), scale.y(0)] : [scale.y(0), scale.y(-2)];
  const flat = isFlat(region);
  const centre = (low + high) / 2;
  const box = { x: low, y: top, width: Math.max(0, high - low), height: bottom - top };
  return html`
    <g class=${`region ${flat ? 'flat' : region.sign > 0 ? 'up' : 'down'} ${here ? 'here' : ''}`}>
      ${flat ? html`<${Flat} hatch="regions-hatch" part="region-flat" ...${box} />` : html`<rect ...${box} />`}
      ${high - low > 30 && html`<text class="region-sign" x=${centre} y=${(top + bottom) / 2} dy="0.35em" text-anchor="middle">
        ${flat ? 'flat' : region.sign > 0 ? '→' : '←'}</text>`}
    </g>`;
}

function Picture({ token }) {
  const { setting, here } = token;
  const [ref, width] = useWidth();
  const scale = scales({ width, height: HEIGHT, xRange: [0, MOST], yRange: [-2, 2] });
  const region = regionOf({ ...setting, ratio: here.ratio });
  const title = region?.title ?? 'No advantage';
  const place = (advantage, ratio) => token.place({
    advantage: Number(Math.min(2, Math.max(-2, advantage)).toFixed(2)), ratio: Number(ratio.toFixed(2)),
  });
  const said = `A ${signed(setting.advantage)}, ρ ${fixed(here.ratio)}: ${title}`;
  return html`
    <div ref=${ref} class="plot">
      <svg class="draggable both" width=${width} height=${HEIGHT} role="group" aria-label="Map of the six regions"
        ...${dragging((x, y) => place(scale.yAt(y), scale.xAt(x)))}>
        <defs><${Hatch} id="regions-hatch" /></defs>
        <${Plane} id="regions" scale=${scale} xTicks=${width < 480 ? [0, 1, 2] : [0, 0.5, 1, 1.5, 2, 2.5]}
          yTicks=${[-2, -1, 0, 1, 2]} xLabel="ratio ρ" yLabel="advantage">
          ${REGIONS.map((one) => html`<${Region} key=${one.title} region=${one} setting=${setting} scale=${scale}
            here=${one === region} />`)}
          <line class="axis" x1=${scale.left} x2=${scale.right} y1=${scale.y(0)} y2=${scale.y(0)} />
        <//>
        <${Handle} x=${scale.x(here.ratio)} y=${scale.y(setting.advantage)} label="Point: ratio and advantage"
          value=${here.ratio} min=${0.01} max=${MOST} text=${said} onDrag=${(x, y) => place(scale.yAt(y), scale.xAt(x))}
          onKey=${(across, up) => place(setting.advantage + 0.05 * up, here.ratio + 0.02 * across)} />
      </svg>
    </div>`;
}

export function Regions({ token }) {
  const { setting, here } = token;
  const region = regionOf({ ...setting, ratio: here.ratio });
  return html`
    <section class="section" aria-labelledby="regions-title">
      <h2 id="regions-title">Six regions</h2>
      <p class="muted">Two of six are flat: good and already raised, bad and already lowered. The arrow says which way the
        gradient pushes ρ. The point is the explorer’s: drag it, or focus it and use the arrow keys.</p>
      <div class="regions">
        <${Picture} token=${token} />
        <ul class="region-list">${REGIONS.map((one) => html`
          <li key=${one.title}><button type="button" class=${`region-button ${isFlat(one) ? 'flat' : ''}`}
            aria-pressed=${one === region} onClick=${() => token.place(middle(one, setting))}>
            <b>${one.title}</b><span>A ${one.sign > 0 ? '> 0' : '< 0'}, ρ ${one.side}</span><span>${one.text}</span></button></li>`)}
        </ul>
      </div>
      <${Python} part="regions" source=${pointSnippet({ ...setting, ratio: Number(here.ratio.toFixed(4)) })} />
      <p class="visually-hidden" aria-live="polite" data-part="region">${region?.title ?? 'No advantage: no gradient.'}</p>
    </section>`;
}
