// All runs of the folder: how each stands, which to look at, which to compare.
import { useMemo, useRef } from "preact/hooks";
import { ago, fixed, percent, whole } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { useKeys } from "taut/lib/keyboard.js";
import { number } from "taut/lib/number.js";
import { Link, runPath } from "taut/lib/router.js";
import { useConnected, useRunList } from "taut/lib/stream.js";
import { useUrlState } from "taut/lib/url_state.js";
import { asTree } from "taut/pages/runs/forks.js";
import { STATUSES, Status, statusWord, useNow } from "taut/pages/runs/status.js";
import { Badge } from "taut/widgets/badge.js";
import { Select } from "taut/widgets/select.js";
import { Sparkline } from "taut/widgets/sparkline.js";
import { Table } from "taut/widgets/table.js";

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return ""; // a mangled link costs its name, not the page
  }
}

/** Names in the query string: commas between them; one within a name, and its sign "%", are percent-encoded. */
export const NAMES = { parse: (text) => text.split(",").map(decoded).filter(Boolean), print: (names) => names.map((name) => name.replace(/[%,]/g, encodeURIComponent)).join(",") };
const SORT = { parse: (text) => { const [key, order] = text.split(" "); return COLUMN_KEYS.has(key) && /^(asc|desc)$/.test(order) ? { key, order } : undefined; }, print: ({ key, order }) => `${key} ${order}` };
const COLUMN_KEYS = new Set(["run", "status", "steps", "reward/mean", "eval/accuracy", "clip/binding", "created"]);
const NEWEST_FIRST = { key: "created", order: "desc" };

/** The words of `search`, each of which a name must hold. */
export function found(rows, search, status) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => (!status || row.status === status) && words.every((word) => row.run.toLowerCase().includes(word)));
}

/** Numbers by size, what is absent or NaN last whatever the order. */
export function sorted(rows, { key, order }) {
  const sign = order === "asc" ? 1 : -1;
  const rank = (row) => { const value = number(row[key]); return value === undefined || Number.isNaN(value) ? null : value; };
  const compare = (a, b) => {
    if (key === "run" || key === "status") return sign * a[key].localeCompare(b[key], "en", { numeric: true });
    const [left, right] = [rank(a), rank(b)];
    if (left === null || right === null) return (left === null) - (right === null);
    return sign * (left - right);
  };
  return [...rows].sort((a, b) => compare(a, b) || (a.run < b.run ? -1 : 1));
}

function nameCell(row) {
  return html`<span class="run-name" style=${{ "--depth": row.depth }}>${row.depth > 0 && html`<span class="fork" aria-label="a fork of the run above" title=${`forked from ${row.parent} at step ${row.parent_step}`}>↳</span>`}<${Link} href=${runPath(row.run)}>${row.run}</${Link}>${row.fault && html` <${Badge} tone="bad" title="A fault was put into this run on purpose, in the workshop.">fault: ${row.fault}</${Badge}>`}${row.parent && row.depth === 0 && html` <span class="faint small">from ${row.parent}, step ${row.parent_step}</span>`}</span>`;
}

function columns(now, chosen, choose) {
  return [
    { key: "choose", label: html`<span class="visually-hidden">Compare</span>`, show: (row) => html`<input type="checkbox" aria-label=${`Compare ${row.run}`} checked=${chosen.includes(row.run)} onClick=${(event) => event.stopPropagation()} onChange=${() => choose(row.run)} />` },
    { key: "run", label: "Run", sortable: true, show: nameCell },
    { key: "status", label: "Status", sortable: true, show: (row) => html`<${Status} status=${row.status} heartbeat=${row.heartbeat} />` },
    { key: "steps", label: "Steps", number: true, sortable: true, show: (row) => whole(row.steps) },
    { key: "course", label: "Reward by step", show: (row) => html`<${Sparkline} values=${row.course} />` },
    { key: "reward/mean", label: "Reward", number: true, sortable: true, title: "mean of the last 5 steps", show: (row) => fixed(number(row["reward/mean"]), 3) },
    { key: "eval/accuracy", label: "Held-out", number: true, sortable: true, title: "accuracy on held-out prompts, the last measured", show: (row) => fixed(number(row["eval/accuracy"]), 3) },
    { key: "clip/binding", label: "Clipped", number: true, sortable: true, title: "clipped share, mean of all steps", show: (row) => percent(number(row["clip/binding"])) },
    { key: "created", label: "Started", number: true, sortable: true, show: (row) => html`<span title=${new Date(row.created * 1000).toLocaleString()}>${row.created ? ago(row.created, now) : "–"}</span>` },
  ];
}

export function comparePath(names) {
  return `/compare?${new URLSearchParams({ runs: NAMES.print(names) })}`;
}

function Chosen({ chosen, setChosen }) {
  if (!chosen.length) return null;
  return html`<div class="row run-chosen" role="status"><span>${chosen.length} chosen</span>
    ${chosen.length > 1 ? html`<${Link} class="button primary small" href=${comparePath(chosen)}>Compare</${Link}>` : html`<span class="faint small">choose another to compare</span>`}
    <button class="text-button" onClick=${() => setChosen([])}>Choose none</button></div>`;
}

export function RunsPage() {
  const { rows, loading } = useRunList();
  const connected = useConnected();
  const now = useNow();
  const [search, setSearch] = useUrlState("search", "");
  const [status, setStatus] = useUrlState("status", "");
  const [sort, setSort] = useUrlState("sort", NEWEST_FIRST, SORT);
  const [chosen, setChosen] = useUrlState("chosen", [], NAMES);
  const field = useRef();
  useKeys({ "/": { does: "search", run: () => field.current.focus() } });
  const shown = useMemo(() => asTree(sorted(found(rows, search, status), sort)).map((row) => ({ ...row, id: row.run })), [rows, search, status, sort.key, sort.order]);
  const choose = (name) => setChosen((names) => (names.includes(name) ? names.filter((other) => other !== name) : [...names, name]));
  const count = shown.length === rows.length ? whole(rows.length) : `${whole(shown.length)} of ${whole(rows.length)}`;
  const empty = loading ? "Reading the runs…" : rows.length ? "No run is like that." : "No run yet. taut train makes one, and so does the workshop.";
  const options = [{ value: "", label: "any" }, ...STATUSES.map((value) => ({ value, label: statusWord(value) }))];
  return html`<div class="page-head"><div><h1>Runs</h1><p class="lead">${loading ? "\u00a0" : `${count} ${rows.length === 1 ? "run" : "runs"}, as they go on. Choose some to compare them.`}</p></div></div>
    ${!connected && html`<p class="panel warn" role="alert">The server doesn't answer; trying again. What stands here is from before.</p>`}
    <div class="row run-tools"><input class="field" type="search" ref=${field} aria-label="Search runs" placeholder="Search" value=${search} onInput=${(event) => setSearch(event.currentTarget.value)} />
      <${Select} label="Status" options=${options} value=${status} onChange=${setStatus} />
      <${Chosen} chosen=${chosen} setChosen=${setChosen} /></div>
    <div class="runs-table"><${Table} label="Runs" columns=${columns(now, chosen, choose)} rows=${shown} sort=${sort} onSort=${setSort} empty=${empty} /></div>`;
}
