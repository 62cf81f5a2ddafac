// How a chart is drawn: uPlot's options, and what is painted over it.
import uPlot from "uplot";
import { short } from "taut/lib/format.js";
import { color } from "taut/lib/theme.js";

export const SIGNS = ["●", "■", "▲", "◆", "▼", "✚", "○", "□"];

/** A series' colour as CSS; in turn where it names none. */
export function hue(entry, at) {
  return entry.color ?? `--s${(at % 8) + 1}`;
}

function ink(name) {
  return name.startsWith("--") ? color(name) : name;
}

function faded(paint, alpha) {
  return `color-mix(in srgb, ${paint} ${Math.round(alpha * 100)}%, transparent)`;
}

/** One shape of SIGNS around (x, y). */
function mark(context, sign, x, y, r) {
  const polygons = { "■": [[-1, -1], [1, -1], [1, 1], [-1, 1]], "□": [[-1, -1], [1, -1], [1, 1], [-1, 1]], "▲": [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]], "▼": [[0, 1.2], [1.1, -0.9], [-1.1, -0.9]], "◆": [[0, -1.4], [1.2, 0], [0, 1.4], [-1.2, 0]] };
  context.beginPath();
  if (sign === "✚") {
    context.moveTo(x - r, y); context.lineTo(x + r, y); context.moveTo(x, y - r); context.lineTo(x, y + r);
    return context.stroke();
  }
  if (polygons[sign]) polygons[sign].forEach(([dx, dy], at) => context[at ? "lineTo" : "moveTo"](x + dx * r, y + dy * r));
  else context.arc(x, y, r, 0, 7);
  context.closePath();
  return sign === "○" || sign === "□" ? context.stroke() : context.fill();
}

/** Signs along each line, so that lines are told apart without their colour. */
function paintSigns(u, look) {
  const { ctx: context, bbox } = u;
  const ratio = devicePixelRatio;
  const gap = Math.max(60 * ratio, bbox.width / 9);
  look.series.forEach((entry, at) => {
    const column = u.data[look.first + at];
    context.fillStyle = context.strokeStyle = ink(hue(entry, at));
    context.lineWidth = 2 * ratio;
    let last = -Infinity;
    for (let i = 0; i < column.length; i += 1) {
      if (column[i] === null || column[i] === undefined) continue;
      const x = u.valToPos(u.data[0][i], "x", true);
      const y = u.valToPos(column[i], "y", true);
      const inside = x >= bbox.left - 1 && x <= bbox.left + bbox.width + 1 && y >= bbox.top - 1 && y <= bbox.top + bbox.height + 1;
      if (!inside || x - last < gap) continue;
      last = x;
      if (look.series.length > 1 || column.length < 2) mark(context, SIGNS[at % SIGNS.length], x, y, 3.4 * ratio);
    }
  });
}

/** Signs at the edge where a value can't be drawn: × for NaN, an arrow for an infinity. */
function paintBad(u, look) {
  const { ctx: context, bbox } = u;
  const ratio = devicePixelRatio;
  context.fillStyle = ink("--bad");
  context.font = `700 ${13 * ratio}px ${look.font}`;
  context.textAlign = "center";
  for (const { x, value } of look.bad) {
    const left = u.valToPos(x, "x", true);
    if (left < bbox.left - 1 || left > bbox.left + bbox.width + 1) continue;
    const top = value === Infinity;
    context.fillText(Number.isNaN(value) ? "×" : top ? "↑" : "↓", left, top ? bbox.top + 12 * ratio : bbox.top + bbox.height - 3 * ratio);
  }
}

/** Level lines, as for published figures; the legend says what they are, where no curve lies across the words. */
function paintLevels(u, look) {
  const { ctx: context, bbox } = u;
  const ratio = devicePixelRatio;
  for (const level of look.levels) {
    const y = u.valToPos(level.y, "y", true);
    if (!(y >= bbox.top && y <= bbox.top + bbox.height)) continue;
    context.strokeStyle = ink(level.color ?? "--ink-3");
    context.lineWidth = 1.2 * ratio;
    context.setLineDash([5 * ratio, 4 * ratio]);
    context.beginPath();
    context.moveTo(bbox.left, y);
    context.lineTo(bbox.left + bbox.width, y);
    context.stroke();
    context.setLineDash([]);
  }
}

/** A number at an axis, as short as it goes: 0.25, 1,500, 1e−5. */
function tick(value) {
  const size = Math.abs(value);
  return size && (size < 1e-4 || size >= 1e7) ? Number(value.toPrecision(4)).toExponential().replace("e+", "e").replaceAll("-", "−") : short(value, 4);
}

/** The powers of ten of a logarithmic axis, not more than nine of them. */
function decades(u, _, low, high) {
  const [first, last] = [Math.ceil(Math.log10(low) - 1e-9), Math.floor(Math.log10(high) + 1e-9)];
  const step = Math.max(1, Math.ceil((last - first) / 8));
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_value, at) => 10 ** (first + at * step));
}

// Steps are counted: no tick stands between two.
const WHOLE = [1, 2, 5].flatMap((part) => Array.from({ length: 9 }, (_, power) => part * 10 ** power)).sort((a, b) => a - b);

function axis(side, label, size, log) {
  const paint = () => color("--ink-3");
  const rule = () => color("--rule");
  const common = { stroke: paint, font: "12px Inter, system-ui, sans-serif", grid: { stroke: rule, width: 1 }, ticks: { stroke: rule, width: 1, size: 4 }, gap: 5 };
  if (side === 2) return { ...common, side, size: 28, label, labelFont: "12px Inter, system-ui, sans-serif", labelSize: 16, space: 56, incrs: WHOLE, grid: { show: false } };
  return { ...common, side, size, space: 34, ...(log && { splits: decades }), values: (_, values) => values.map((value) => (value === null ? "" : tick(value))) };
}

function yRange(look) {
  return (_, low, high) => {
    if (low === null || high === null) return look.log ? [0.1, 1] : [look.yMin ?? 0, look.yMax ?? 1];
    if (look.log) return [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high) + 1e-9)];
    for (const { y } of look.levels) { low = Math.min(low, y); high = Math.max(high, y); }
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    return [look.yMin ?? low - room, look.yMax ?? high + room];
  };
}

/** One list of columns for uPlot, and how each is drawn. */
function layers(look, data) {
  const series = [{}];
  const bands = [];
  const all = [data.x];
  const add = (column, style) => { all.push(column); series.push({ points: { show: false }, ...style }); return all.length - 1; };
  look.series.forEach((entry, at) => {
    if (!data.low[at]) return;
    const high = add(data.high[at], { stroke: "transparent", width: 0 });
    const low = add(data.low[at], { stroke: "transparent", width: 0 });
    bands.push({ series: [high, low], fill: faded(ink(hue(entry, at)), 0.18) });
  });
  data.raw.forEach((column, at) => add(column, { stroke: faded(ink(hue(look.series[at], at)), 0.4), width: 1 }));
  const first = all.length;
  data.shown.forEach((column, at) => add(column, { stroke: ink(hue(look.series[at], at)), width: 2, dash: look.series[at].dashed ? [7, 5] : undefined, points: { show: look.series[at].points ?? false, size: 6, fill: ink(hue(look.series[at], at)) } }));
  return { series, bands, all, first };
}

/**
 * {options, data, first}: what uPlot is given. `look` has series, bad, levels, log, yMin, yMax, xLabel, width, height;
 * `view` is {zoom: [low, high] or null}, read at each drawing; `hear` is {cursor(index), zoom(range)}.
 */
export function plan(look, data, view, hear) {
  const { series, bands, all, first } = layers(look, data);
  Object.assign(look, { first, font: "Inter, system-ui, sans-serif" });
  const select = (u) => {
    if (u.select.width < 4) return;
    const range = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
    u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    hear.zoom(range);
  };
  const xRange = (_, low, high) => view.zoom ?? (low === high ? [low - 0.5, high + 0.5] : [low, high]);
  const options = {
    width: look.width,
    height: look.height,
    legend: { show: false },
    padding: [10, 12, 0, 0],
    cursor: { drag: { x: true, y: false, setScale: false }, points: { size: 8 }, y: false, sync: look.sync && { key: look.sync, setSeries: false } },
    scales: { x: { time: false, range: xRange }, y: { distr: look.log ? 3 : 1, range: yRange(look) } },
    axes: [axis(2, look.xLabel), axis(3, null, 54, look.log)],
    series,
    bands,
    hooks: { draw: [(u) => { u.ctx.save(); paintLevels(u, look); paintSigns(u, look); paintBad(u, look); u.ctx.restore(); }], setCursor: [(u) => hear.cursor(u.cursor.idx)], setSelect: [select] },
  };
  return { options, data: all, first };
}

export function draw(box, { options, data }) {
  return new uPlot(options, data, box);
}
