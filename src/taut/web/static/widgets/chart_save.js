// A chart as a file: CSV of the numbers given, SVG drawn from them, PNG of what is on the screen.
import { short } from "taut/lib/format.js";
import { line, linear, ticks } from "taut/widgets/svg.js";
import { hue } from "taut/widgets/chart_draw.js";

/** Hands a file to the browser. `parts` as for Blob. */
export function download(name, parts, type) {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export function fileName(title, ending) {
  return `${String(title).replace(/[^\p{L}\p{N}._-]+/gu, "_").replace(/^[_.]+|_+$/g, "") || "chart"}.${ending}`;
}

function cell(value) {
  let text = value === undefined || value === null ? "" : String(value);
  // A spreadsheet would compute a name such as "=1+1"; behind an apostrophe it is a text to it.
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** One row a point: series, x, y, and the band where there is one. NaN and Infinity are written so. */
export function csv(series, xLabel, yLabel) {
  const rows = [["series", xLabel ?? "x", yLabel ?? "y", "low", "high"]];
  for (const { label, x, y, band } of series) {
    for (let at = 0; at < x.length; at += 1) rows.push([label, x[at], y[at], band?.[0][at], band?.[1][at]]);
  }
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function escape(text) {
  return String(text).replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** A standing picture of the lines within [x low, x high] × [y low, y high], on white, with the colours of paper. */
export function svg({ title, series, xLabel, levels }, data, [xLow, xHigh], [yLow, yHigh], paint, log = false) {
  const [width, height, left, right, top, bottom] = [720, 400, 64, 20, 44, 56 + 18 * Math.ceil(series.length / 3)];
  const map = log ? Math.log10 : (value) => value;
  const x = linear([xLow, xHigh], [left, width - right]);
  const y = linear([map(yLow), map(yHigh)], [height - bottom, top]);
  const parts = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="Inter, system-ui, sans-serif" font-size="12">`, `<rect width="${width}" height="${height}" fill="#fff"/>`, `<text x="${left}" y="26" font-size="15" font-weight="600" fill="#1d2129">${escape(title)}</text>`, `<clipPath id="in"><rect x="${left}" y="${top}" width="${width - left - right}" height="${height - top - bottom}"/></clipPath>`];
  for (const value of ticks(...y.domain)) parts.push(`<path d="M${left} ${y(value)}H${width - right}" stroke="#dcd8cd"/><text x="${left - 8}" y="${y(value) + 4}" text-anchor="end" fill="#646b78">${escape(short(log ? 10 ** value : value))}</text>`);
  for (const value of ticks(xLow, xHigh, 5, true)) parts.push(`<text x="${x(value)}" y="${height - bottom + 18}" text-anchor="middle" fill="#646b78">${escape(short(value))}</text>`);
  if (xLabel) parts.push(`<text x="${(left + width - right) / 2}" y="${height - bottom + 36}" text-anchor="middle" fill="#646b78">${escape(xLabel)}</text>`);
  const points = (column) => data.x.map((value, at) => [value, column[at]]).filter(([, value]) => value !== undefined).map(([a, b]) => [x(a), b === null ? NaN : y(map(b))]);
  series.forEach((entry, at) => {
    const color = paint(hue(entry, at));
    if (data.low[at]) {
      const [high, low] = [points(data.high[at]), points(data.low[at]).reverse()].map((list) => list.filter(([, value]) => Number.isFinite(value)));
      parts.push(`<path clip-path="url(#in)" d="${line([...high, ...low])}Z" fill="${color}" fill-opacity="0.18"/>`);
    }
    if (data.raw[at]) parts.push(`<path clip-path="url(#in)" d="${line(points(data.raw[at]))}" fill="none" stroke="${color}" stroke-opacity="0.3"/>`);
    parts.push(`<path clip-path="url(#in)" d="${line(points(data.shown[at]))}" fill="none" stroke="${color}" stroke-width="2"${entry.dashed ? ' stroke-dasharray="7 5"' : ""}/>`);
    const [row, column] = [Math.floor(at / 3), at % 3];
    const [lx, ly] = [left + column * 215, height - bottom + 56 + row * 18];
    parts.push(`<path d="M${lx} ${ly - 4}h18" stroke="${color}" stroke-width="2"${entry.dashed ? ' stroke-dasharray="7 5"' : ""}/><text x="${lx + 24}" y="${ly}" fill="#1d2129">${escape(entry.label.length > 30 ? entry.label.slice(0, 29) + "…" : entry.label)}</text>`);
  });
  for (const level of levels) parts.push(`<path clip-path="url(#in)" d="M${left} ${y(map(level.y))}H${width - right}" stroke="#646b78" stroke-dasharray="5 4"/><text x="${width - right - 4}" y="${y(map(level.y)) - 5}" text-anchor="end" fill="#646b78" font-size="11">${escape(level.label)}</text>`);
  return parts.join("") + "</svg>\n";
}

/** The canvas of a chart with its title and the words of its levels above, on the page's own background, as a PNG file. */
export function png(canvas, title, levels, background, ink, name) {
  const ratio = devicePixelRatio;
  const head = Math.round(30 * ratio);
  const copy = document.createElement("canvas");
  copy.width = canvas.width;
  copy.height = canvas.height + head;
  const context = copy.getContext("2d");
  context.fillStyle = background;
  context.fillRect(0, 0, copy.width, copy.height);
  context.fillStyle = ink;
  context.font = `600 ${14 * ratio}px Inter, system-ui, sans-serif`;
  context.fillText(title, 10 * ratio, 20 * ratio);
  const after = 22 * ratio + context.measureText(title).width;
  context.font = `${11 * ratio}px Inter, system-ui, sans-serif`;
  context.fillText(levels.map(({ y, label }) => `${label} (${short(y)})`).join(", "), after, 20 * ratio, Math.max(1, copy.width - after - 10 * ratio));
  context.drawImage(canvas, 0, head);
  copy.toBlob((blob) => download(name, [blob], "image/png"), "image/png");
}
