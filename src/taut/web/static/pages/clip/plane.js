// A plane to draw on: axes, ticks and a scale that follows the width of the page, so that text keeps its size.

import { html } from 'taut/lib/html.js';
import { fixed } from 'taut/pages/clip/words.js';

const MARGIN = { top: 26, right: 14, bottom: 38, left: 46 };

/** From values to pixels: `{x(value), y(value), left, right, top, bottom}`, and back by `xAt` and `yAt`. */
export function scales({ width, height, xRange, yRange, margin = MARGIN }) {
  const left = margin.left;
  const right = width - margin.right;
  const top = margin.top;
  const bottom = height - margin.bottom;
  const span = (range) => range[1] - range[0];
  return {
    left, right, top, bottom,
    x: (value) => left + ((value - xRange[0]) / span(xRange)) * (right - left),
    y: (value) => bottom - ((value - yRange[0]) / span(yRange)) * (bottom - top),
    xAt: (pixel) => xRange[0] + ((pixel - left) / (right - left)) * span(xRange),
    yAt: (pixel) => yRange[0] + ((bottom - pixel) / (bottom - top)) * span(yRange),
  };
}

/** Axes with ticks. `children` is drawn between grid and frame, clipped to the plane. */
export function Plane({ id, scale, xTicks, yTicks, xLabel, yLabel, digits = 1, children, over }) {
  const { left, right, top, bottom } = scale;
  return html`
    <clipPath id=${`${id}-inside`}><rect x=${left} y=${top} width=${right - left} height=${bottom - top} /></clipPath>
    ${yTicks.map((tick) => html`
      <line class=${tick === 0 ? 'axis' : 'grid'} x1=${left} x2=${right} y1=${scale.y(tick)} y2=${scale.y(tick)} />
      <text class="tick" x=${left - 8} y=${scale.y(tick)} dy="0.32em" text-anchor="end">${fixed(tick, digits)}</text>`)}
    ${xTicks.map((tick) => html`
      <line class="axis" x1=${scale.x(tick)} x2=${scale.x(tick)} y1=${bottom} y2=${bottom + 4} />
      <text class="tick" x=${scale.x(tick)} y=${bottom + 17} text-anchor="middle">${fixed(tick, digits)}</text>`)}
    <g clip-path=${`url(#${id}-inside)`}>${children}</g>
    <line class="axis" x1=${left} x2=${right} y1=${bottom} y2=${bottom} />
    ${over}
    <text class="label" x=${right} y=${bottom + 34} text-anchor="end">${xLabel}</text>
    <text class="label" x="0" y="11">${yLabel}</text>`;
}

/** A flat stretch: a ground in red, and hatching, so that it shows without its colour. Needs a Hatch of that id. */
export function Flat({ hatch, part = 'flat', ...box }) {
  return html`<g data-part=${part}><rect class="flat-ground" ...${box} /><rect fill=${`url(#${hatch})`} ...${box} /></g>`;
}

/** Handlers that report where the pointer is pressed and dragged, in pixels of the SVG. */
export function dragging(report) {
  const where = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    report(event.clientX - box.left, event.clientY - box.top);
  };
  return {
    onPointerDown: (event) => {
      if (event.button) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      where(event);
    },
    onPointerMove: (event) => event.currentTarget.hasPointerCapture(event.pointerId) && where(event),
  };
}
