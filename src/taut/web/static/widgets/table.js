// A table with heads that sort.
import { html } from "taut/lib/html.js";

/**
 * `columns` is [{key, label, show(row), number, sortable, title}], `rows` plain objects with a unique `id`.
 * `sort` is {key, order: "asc"|"desc"}; `onSort(sort)` is told of a press, the rows come sorted.
 * `onRow(row)` makes rows pressable by mouse; give the keyboard a link or button in a cell. `current` is a row's id.
 */
export function Table({ label, columns, rows, sort, onSort, onRow, current, empty = "Nothing yet." }) {
  const head = (column) => {
    const active = sort?.key === column.key;
    const order = active && sort.order === "asc" ? "desc" : "asc";
    const press = () => onSort({ key: column.key, order: active ? order : column.number ? "desc" : "asc" });
    return html`<th key=${column.key} scope="col" class=${column.number ? "number" : undefined} title=${column.title} aria-sort=${active ? (sort.order === "asc" ? "ascending" : "descending") : undefined}>
      ${column.sortable && onSort ? html`<button class="sort" onClick=${press}>${column.label}<span aria-hidden="true">${active ? (sort.order === "asc" ? " ↑" : " ↓") : ""}</span></button>` : column.label}</th>`;
  };
  if (!rows.length) return html`<p class="muted">${empty}</p>`;
  return html`<div class="table-box" tabindex="0" role="region" aria-label=${label}><table class="table">
    <caption class="visually-hidden">${label}</caption>
    <thead><tr>${columns.map(head)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.id} data-current=${row.id === current || undefined} data-press=${onRow ? true : undefined} onClick=${onRow && (() => onRow(row))}>
      ${columns.map((column) => html`<td key=${column.key} class=${column.number ? "number" : undefined}>${column.show ? column.show(row) : row[column.key]}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}
