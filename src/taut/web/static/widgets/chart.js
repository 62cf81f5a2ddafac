// Lines over steps: live, smoothed, zoomed, read by the keyboard, saved as a file.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { short } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { color, useTheme } from "taut/lib/theme.js";
import { columns, tell } from "taut/widgets/chart_data.js";
import { SIGNS, draw, hue, plan } from "taut/widgets/chart_draw.js";
import { csv, download, fileName, png, svg } from "taut/widgets/chart_save.js";
import { Say } from "taut/widgets/readout.js";
import { useWidth } from "taut/widgets/svg.js";

const NONE = [];

function paint(name) {
  return name.startsWith("--") ? color(name) : name;
}

function value(column, index) {
  return index === null || index === undefined ? undefined : column[index] ?? undefined;
}

/** The newest value that a column has. */
function newest(column) {
  for (let at = column.length - 1; at >= 0; at -= 1) if (column[at] !== null && column[at] !== undefined) return column[at];
  return undefined;
}

function Legend({ series, levels, data, index, format, xLabel }) {
  return html`<ul class="chart-legend">${series.map((entry, at) => html`<li key=${entry.label} title=${entry.note}>
      <span class="chart-sign" style=${{ color: entry.color?.startsWith("--") || !entry.color ? `var(${hue(entry, at)})` : entry.color }} data-dashed=${entry.dashed || undefined} aria-hidden="true">${series.length > 1 ? SIGNS[at % SIGNS.length] : ""}</span>
      <span class="chart-label">${entry.label}</span>
      <span class="chart-value">${format(index === null ? newest(data.shown[at]) : value(data.shown[at], index))}</span></li>`)}
    ${levels.map(({ label, color: name = "--ink-3" }) => html`<li key=${`level ${label}`} class="chart-level"><span class="chart-sign" data-dashed style=${{ color: `var(${name})` }} aria-hidden="true"></span><span class="chart-label">${label}</span></li>`)}
    ${index !== null && data.x[index] !== undefined && html`<li class="faint">${xLabel ?? "at"} ${short(data.x[index], 6)}</li>`}
  </ul>`;
}

/** The numbers themselves: for who can't see the lines, and for who wants to read one. At most the last 200 rows. */
function Numbers({ title, series, data, xLabel, format }) {
  const from = Math.max(0, data.x.length - 200);
  const rows = data.x.slice(from).map((x, at) => [x, ...data.shown.map((column) => column[from + at])]);
  return html`<div class="table-box chart-numbers" tabindex="0" role="region" aria-label=${`${title} as a table`}><table class="table"><thead><tr><th scope="col" class="number">${xLabel ?? "x"}</th>${series.map(({ label }) => html`<th scope="col" class="number">${label}</th>`)}</tr></thead>
    <tbody>${rows.map(([x, ...values]) => html`<tr key=${x}><th scope="row" class="number">${short(x, 6)}</th>${values.map((item) => html`<td class="number">${item === null ? "not finite" : format(item)}</td>`)}</tr>`)}</tbody></table></div>`;
}

function Save({ title, series, data, chart, xLabel, yLabel, levels, log }) {
  const asSvg = () => {
    const { x, y } = chart.current.scales;
    download(fileName(title, "svg"), [svg({ title, series, xLabel, levels }, data, [x.min, x.max], [y.min, y.max], paint, log)], "image/svg+xml");
  };
  const asPng = () => png(chart.current.ctx.canvas, title, levels, color("--paper"), color("--ink"), fileName(title, "png"));
  const asCsv = () => download(fileName(title, "csv"), [csv(series, xLabel, yLabel)], "text/csv");
  return html`<span class="chart-save" role="group" aria-label=${`Save ${title}`}>
    ${[["PNG", asPng], ["SVG", asSvg], ["CSV", asCsv]].map(([name, run]) => html`<button class="text-button" onClick=${run} aria-label=${`Save as ${name}`}>${name}</button>`)}</span>`;
}

/** The uPlot of this chart in a ref, made anew where its look changes and fed where only its numbers do. */
function usePlot(box, look, data, view, hear) {
  const chart = useRef(null);
  const [, theme] = useTheme();
  const shape = JSON.stringify([theme, look.width, look.height, look.log, look.sync, look.yMin, look.yMax, look.xLabel, look.series.map((entry, at) => [hue(entry, at), entry.dashed, entry.points, !!data.low[at]]), data.raw.length]);
  const kept = useRef(look);
  useLayoutEffect(() => {
    kept.current = look;
    chart.current = draw(box.current, plan(look, data, view, hear));
    return () => chart.current.destroy();
  }, [shape]);
  useLayoutEffect(() => {
    Object.assign(kept.current, { bad: look.bad, levels: look.levels, series: look.series });
    chart.current.setData(plan({ ...look }, data, view, hear).data);
  }, [data, look.levels]);
  return chart;
}

/** Arrow keys walk the points: a handler for keydown. */
function walk(chart, data, index, setIndex, reset) {
  return (event) => {
    const last = data.x.length - 1;
    const at = index ?? last;
    const to = { ArrowLeft: at - 1, ArrowRight: index === null ? last : at + 1, PageUp: at - 10, PageDown: at + 10, Home: 0, End: last }[event.key];
    if (event.key === "Escape") { reset(); return; }
    if (to === undefined || last < 0) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(last, to));
    setIndex(next);
    chart.current.setCursor({ left: chart.current.valToPos(data.x[next], "x"), top: 0 }, false);
  };
}

/**
 * A chart with its title, legend and files.
 *
 * `series` is [{label, x, y, color, dashed, points, band: [low, high], note}], x and y arrays of numbers in which y
 * may be NaN or infinite: such points are marked at the edge and told in words. `color` is a CSS variable's name.
 * `smoothing` in [0, 1) draws the moving average over the raw line; `levels` is [{y, label, color}], level lines;
 * `sync` links the cursors of charts of one name; `format` prints a value; `children` stands beneath the title.
 */
export function Chart({ title, series, xLabel, yLabel, smoothing = 0, height = 220, log = false, yMin, yMax, levels = NONE, sync, format = short, children }) {
  const [box, width] = useWidth();
  const [index, setIndex] = useState(null);
  const [asTable, showTable] = useState(false);
  const [zoom, setZoom] = useState(null);
  const view = useRef({ zoom: null }).current;
  const data = useMemo(() => columns(series, { smoothing, log }), [series, smoothing, log]);
  const look = { series, bad: data.bad, levels, log, yMin, yMax, xLabel, width, height, sync };
  const hear = { cursor: (at) => setIndex(at ?? null), zoom: (range) => { view.zoom = range; setZoom(range); } };
  const chart = usePlot(box, look, data, view, hear);
  useEffect(() => { chart.current.setScale("x", {}); chart.current.setData(chart.current.data); }, [zoom]);
  const reset = () => hear.zoom(null);
  const said = index === null || data.x[index] === undefined ? "" : `${xLabel ?? "at"} ${short(data.x[index], 6)}: ${series.map(({ label }, at) => `${label} ${format(value(data.shown[at], index))}`).join(", ")}`;
  return html`<figure class="chart figure">
    <figcaption class="chart-head"><h3>${title}</h3>${zoom && html`<button class="text-button" onClick=${reset}>Whole</button>`}</figcaption>
    ${children}
    <${Legend} ...${{ series, levels, data, index, format, xLabel }} />
    <div class="chart-canvas" tabindex="0" role="group" data-keys aria-label=${`${title}: ${series.length} ${series.length === 1 ? "line" : "lines"} over ${data.x.length} points. Left and right read the values.`}
      onKeyDown=${walk(chart, data, index, setIndex, reset)} onDblClick=${reset}><div ref=${box}></div>${yLabel && html`<span class="chart-y">${yLabel}</span>`}</div>
    ${data.bad.length > 0 && html`<p class="chart-bad">${tell(data.bad, xLabel).join("; ")}.</p>`}
    <div class="chart-foot"><button class="text-button" aria-pressed=${asTable} onClick=${() => showTable(!asTable)}>Table</button>
      <${Save} ...${{ title, series, data, chart, xLabel, yLabel, levels, log }} /></div>
    ${asTable && html`<${Numbers} ...${{ title, series, data, xLabel, format }} />`}
    <${Say} text=${said} />
  </figure>`;
}
