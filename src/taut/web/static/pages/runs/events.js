// What happened in a run, newest first.
import { useState } from "preact/hooks";
import { html } from "taut/lib/html.js";
import { useUrlState } from "taut/lib/url_state.js";
import { Badge } from "taut/widgets/badge.js";
import { Select } from "taut/widgets/select.js";
import { Table } from "taut/widgets/table.js";

const TONES = { error: "bad", warning: "warn", info: "quiet" };
const FIRST = 50;
const COLUMNS = [
  { key: "time", label: "Time", show: ({ time }) => html`<span class="nowrap" title=${new Date(time * 1000).toLocaleString()}>${new Date(time * 1000).toLocaleTimeString()}</span>` },
  { key: "step", label: "Step", number: true, show: ({ step }) => step ?? "" },
  { key: "level", label: "Level", show: ({ level }) => html`<${Badge} tone=${Object.hasOwn(TONES, level) ? TONES[level] : "quiet"}>${level}</${Badge}>` },
  { key: "name", label: "What", show: ({ kind, name }) => html`<span class="wrap">${kind === name ? kind : `${kind} · ${name}`}</span>` },
  { key: "message", label: "Message", show: ({ message }) => html`<span class="wrap">${message}</span>` },
];

export function Events({ events }) {
  const [level, setLevel] = useUrlState("level", "");
  const [search, setSearch] = useUrlState("event", "");
  const [all, showAll] = useState(false);
  if (!events.length) return html`<p class="muted">Nothing has happened but steps.</p>`;
  const wanted = search.toLowerCase();
  const found = events.filter((event) => (!level || event.level === level) && `${event.kind} ${event.name} ${event.message}`.toLowerCase().includes(wanted)).reverse();
  const options = [["", "any"], ["error", "error"], ["warning", "warning"], ["info", "info"]].map(([value, label]) => ({ value, label }));
  return html`<div class="row"><input class="field" type="search" aria-label="Search events" placeholder="Search events" value=${search} onInput=${(event) => setSearch(event.currentTarget.value)} /><${Select} label="Level" options=${options} value=${level} onChange=${setLevel} /></div>
    <div class="events"><${Table} label="List of events" columns=${COLUMNS} rows=${all ? found : found.slice(0, FIRST)} empty="No event is like that." /></div>
    ${!all && found.length > FIRST && html`<button class="text-button" onClick=${() => showAll(true)}>Show ${found.length - FIRST} more</button>`}`;
}
