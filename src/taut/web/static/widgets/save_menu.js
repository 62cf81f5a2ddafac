// A run, or one step of it, as files: a page that needs no server, and tables.
import { html } from "taut/lib/html.js";
import { exported } from "taut/lib/router.js";

const TABLES = [["scalars", "Metrics"], ["replies", "Replies"], ["tokens", "Tokens"]];
const FORMATS = [["csv", "CSV"], ["parquet", "Parquet"]];

/** Without a `step`, of the whole run. */
export function SaveMenu({ name, step }) {
  if (exported) return null;
  const address = (file) => `/api/export/${encodeURIComponent(name)}/${file}${step === undefined ? "" : `?step=${encodeURIComponent(step)}`}`;
  const tables = step === undefined ? TABLES : TABLES.slice(1);
  return html`<details class="menu"><summary class="button small">Save</summary><ul>
    <li><a href=${address("page")} download>${step === undefined ? "This run as one HTML file" : "This step as one HTML file, with the microscope"}</a></li>
    ${tables.map(([table, words]) => html`<li key=${table}>${words} as ${FORMATS.map(([format, label], at) => html`${at > 0 && ", "}<a href=${address(`${table}.${format}`)} aria-label=${`${words} as ${label}`} download>${label}</a>`)}</li>`)}
  </ul></details>`;
}
