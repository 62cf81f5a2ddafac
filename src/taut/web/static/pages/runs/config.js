// The settings of a run, and which of them aren't the default.
import { html } from "taut/lib/html.js";
import { useUrlState } from "taut/lib/url_state.js";
import { Table } from "taut/widgets/table.js";
import { Toggle } from "taut/widgets/toggle.js";

/** A setting as it is written in a config file. */
export function written(value) {
  return typeof value === "string" ? value : JSON.stringify(value) ?? "–";
}

const COLUMNS = [
  { key: "id", label: "Setting", show: ({ id, differs }) => html`<span class="mono wrap">${id}</span>${differs && html` <span class="differs">not the default</span>`}` },
  { key: "value", label: "Value", show: ({ value, differs }) => html`<span class=${`mono wrap${differs ? " strong" : ""}`}>${written(value)}</span>` },
  { key: "usual", label: "Default", show: ({ usual, differs }) => (differs ? html`<span class="mono wrap faint">${written(usual)}</span>` : "") },
];

/** `config` and `defaults` as of GET /api/runs/NAME. */
export function Config({ config, defaults }) {
  const [search, setSearch] = useUrlState("setting", "");
  const [only, setOnly] = useUrlState("differing", true);
  const rows = Object.entries(config).map(([id, value]) => ({ id, value, usual: defaults[id], differs: Object.hasOwn(defaults, id) }));
  const wanted = search.toLowerCase();
  const found = rows.filter(({ id, value, differs }) => (wanted || !only || differs) && `${id} ${written(value)}`.toLowerCase().includes(wanted));
  const count = rows.filter(({ differs }) => differs).length;
  return html`<div class="row"><input class="field" type="search" aria-label="Search settings" placeholder="Search settings" value=${search} onInput=${(event) => setSearch(event.currentTarget.value)} />
    ${wanted ? html`<span class="faint small" role="status">${found.length} of ${rows.length}</span>` : html`<${Toggle} label=${`Only the ${count} of ${rows.length} that aren't the default`} value=${only} onChange=${setOnly} />`}</div>
    <${Table} label="Their values" columns=${COLUMNS} rows=${found} empty="No setting is like that." />`;
}
