// What hand-drawn figures share: scales, ticks, axes, hatching, handles.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { short } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { subscripts } from "taut/lib/subscript.js";

/** A linear scale from a domain to pixels: call it, or its `invert`. */
export function linear([from, to], [start, end]) {
  const scale = (value) => start + ((value - from) / (to - from)) * (end - start);
  scale.invert = (pixel) => from + ((pixel - start) / (end - start)) * (to - from);
  scale.domain = [from, to];
  scale.range = [start, end];
  return scale;
}

/** About `count` round numbers within [low, high]; of `whole` ones, none between two steps. */
export function ticks(low, high, count = 5, whole = false) {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const sizes = (whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map((part) => part * power);
  const step = Math.max(whole ? 1 : 0, sizes.find((size) => size >= rough * 0.999));
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) found.push(Number((at * step).toPrecision(12)));
  return found;
}

/** A path through points in pixels; what isn't finite leaves a gap. */
export function line(points) {
  let pen = "M";
  let path = "";
  for (const [x, y] of points) {
    if (Number.isFinite(x) && Number.isFinite(y)) {
      path += `${pen}${x.toFixed(2)} ${y.toFixed(2)}`;
      pen = "L";
    } else pen = "M";
  }
  return path;
}

/** [ref, width]: the width in pixels of an element, followed as it changes. */
export function useWidth(first = 640) {
  const ref = useRef();
  const [width, setWidth] = useState(first);
  useLayoutEffect(() => {
    const measure = () => ref.current && setWidth(Math.max(120, Math.floor(ref.current.clientWidth)));
    const observer = new ResizeObserver(measure);
    observer.observe(ref.current);
    measure();
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

/** An SVG of `height` pixels as wide as there is room; `draw(width)` gives its children. `label` says what is seen. */
export function Figure({ label, height, draw, first, class: name }) {
  const [ref, width] = useWidth(first);
  return html`<div ref=${ref} class=${`svg-box ${name ?? ""}`}><svg role="group" aria-label=${label} width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}>${draw(width)}</svg></div>`;
}

/** The axis beneath: `scale` horizontal, at pixel `y`; `grid` draws lines up to that pixel. */
export function AxisX({ scale, y, label, count = 6, format = short, grid, at }) {
  const [start, end] = scale.range;
  return html`<g class="axis" aria-hidden="true">
    <line x1=${start} x2=${end} y1=${y} y2=${y} />
    ${(at ?? ticks(...scale.domain, count)).map((value) => html`<g key=${value} transform=${`translate(${scale(value)} ${y})`}>
      ${grid !== undefined && html`<line class="grid" y1=${grid - y} y2="0" />`}<line y2="4" /><text y="17" text-anchor="middle">${format(value)}</text></g>`)}
    ${label && html`<text class="axis-label" x=${(start + end) / 2} y=${y + 34} text-anchor="middle">${subscripts(label, true)}</text>`}
  </g>`;
}

/** The axis at the left: `scale` vertical, at pixel `x`; `grid` draws lines to that pixel. */
export function AxisY({ scale, x, label, count = 5, format = short, grid, at }) {
  const [start, end] = scale.range;
  return html`<g class="axis" aria-hidden="true">
    <line x1=${x} x2=${x} y1=${start} y2=${end} />
    ${(at ?? ticks(...scale.domain, count)).map((value) => html`<g key=${value} transform=${`translate(${x} ${scale(value)})`}>
      ${grid !== undefined && html`<line class="grid" x1="0" x2=${grid - x} />`}<line x2="-4" /><text x="-7" dy="0.32em" text-anchor="end">${format(value)}</text></g>`)}
    ${label && html`<text class="axis-label" transform=${`translate(${x - 38} ${(start + end) / 2}) rotate(-90)`} text-anchor="middle">${label}</text>`}
  </g>`;
}

/** A pattern of slanted lines, used as fill=${`url(#${id})`}. */
export function Hatch({ id, color = "var(--clip)", gap = 7 }) {
  return html`<pattern id=${id} width=${gap} height=${gap} patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line y2=${gap} stroke=${color} stroke-width="1.6" stroke-opacity="0.75" /></pattern>`;
}

/**
 * A point to be dragged, or moved by the arrow keys (ten steps with Shift). `onDrag(x, y)` in the SVG's pixels,
 * `onKey(dx, dy)` in steps, up being +1. `value`, `min`, `max` and `text` are what is said aloud.
 */
export function Handle({ x, y, r = 8, label, value, min, max, text, onDrag, onKey, color = "var(--accent)" }) {
  const start = (event) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    event.currentTarget.focus();
    event.preventDefault();
  };
  const drag = (event) => {
    if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    const box = event.currentTarget.ownerSVGElement.getBoundingClientRect();
    const view = event.currentTarget.ownerSVGElement.viewBox.baseVal;
    onDrag(((event.clientX - box.left) * view.width) / box.width, ((event.clientY - box.top) * view.height) / box.height);
  };
  const key = (event) => {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!steps) return;
    event.preventDefault();
    onKey(...steps.map((step) => step * (event.shiftKey ? 10 : 1)));
  };
  return html`<g class="handle" role="slider" tabindex="0" aria-label=${label} aria-valuenow=${value} aria-valuemin=${min} aria-valuemax=${max} aria-valuetext=${text}
    transform=${`translate(${x} ${y})`} onPointerDown=${start} onPointerMove=${drag} onKeyDown=${key}>
    <circle class="handle-reach" r=${Math.max(16, r * 2)} /><circle class="handle-dot" r=${r} fill=${color} /></g>`;
}
