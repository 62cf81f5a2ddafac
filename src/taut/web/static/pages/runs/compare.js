// Runs side by side: charts laid over each other, where they ended, where their settings differ, how they descend.
import { useState } from "preact/hooks";
import { fixed, percent, whole } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { number } from "taut/lib/number.js";
import { Link, runPath } from "taut/lib/router.js";
import { useConnected, useRunList, useRuns } from "taut/lib/stream.js";
import { useUrlState } from "taut/lib/url_state.js";
import { useData } from "taut/lib/use_data.js";
import { Charts } from "taut/pages/runs/charts.js";
import { written } from "taut/pages/runs/config.js";
import { asTree, family } from "taut/pages/runs/forks.js";
import { NAMES } from "taut/pages/runs/list.js";
import { Status } from "taut/pages/runs/status.js";
import { Table } from "taut/widgets/table.js";

const SIGNS = ["●", "■", "▲", "◆", "▼", "○", "□", "△"];

function Swatch({ at }) {
  return html`<span class="swatch" aria-hidden="true" style=${{ color: `var(--s${(at % 8) + 1})` }}>${SIGNS[at % 8]}</span>`;
}

/** A field that takes the name of another run, by the browser's own suggestions. */
function Add({ rows, names, onAdd }) {
  const [text, setText] = useState("");
  const others = rows.filter(({ run }) => !names.includes(run));
  const take = (value) => {
    const there = others.some(({ run }) => run === value);
    if (there) onAdd(value);
    setText(there ? "" : value);
  };
  return html`<input class="field" list="other-runs" aria-label="Add a run" placeholder="Add a run" value=${text} onInput=${(event) => take(event.currentTarget.value)} />
    <datalist id="other-runs">${others.slice(-200).map(({ run }) => html`<option key=${run} value=${run}></option>`)}</datalist>`;
}

function Chosen({ runs, onRemove }) {
  return html`<ul class="compared">${runs.map((run, at) => html`<li key=${run.name}><${Swatch} at=${at} /><${Link} href=${runPath(run.name)} class="wrap">${run.name}</${Link}><${Status} status=${run.status} />
    <button class="icon-button" aria-label=${`Leave ${run.name} out`} title="Leave out" onClick=${() => onRemove(run.name)}>✕</button></li>`)}</ul>`;
}

const RESULTS = [
  { key: "run", label: "Run", show: ({ run, at }) => html`<span class="result-name"><${Swatch} at=${at} /> <${Link} href=${runPath(run)} class="wrap">${run}</${Link}></span>` },
  { key: "steps", label: "Steps", number: true, show: ({ steps }) => whole(steps) },
  { key: "reward", label: "Reward, last 5 steps", number: true, show: (row) => fixed(number(row["reward/mean"]), 3) },
  { key: "accuracy", label: "Held-out accuracy", number: true, show: (row) => fixed(number(row["eval/accuracy"]), 3) },
  { key: "clipped", label: "Clipped share", number: true, show: (row) => percent(number(row["clip/binding"])) },
];

function Differences({ names }) {
  const { data, error } = useData(names.length > 1 ? `/api/compare?${new URLSearchParams(names.map((name) => ["runs", name]))}` : null);
  if (error) return html`<p class="panel bad" role="alert">${error.message}</p>`;
  if (!data) return html`<p class="muted">${names.length > 1 ? "Reading the settings…" : "One run differs from none."}</p>`;
  const rows = Object.entries(data.differences).map(([id, values]) => ({ id, values }));
  const columns = [
    { key: "id", label: "Setting", show: ({ id }) => html`<span class="mono">${id}</span>` },
    ...data.runs.map((name, at) => ({ key: `${at}`, label: html`<${Swatch} at=${at} /> ${name}`, show: ({ values }) => html`<span class="mono wrap">${values[at] === null ? "–" : written(values[at])}</span>` })),
  ];
  return html`<${Table} label="Their values by run" columns=${columns} rows=${rows} empty="Their settings are the same." />`;
}

/** All runs that the compared ones are related to, those among them marked. */
function Tree({ rows, names }) {
  const shown = new Map();
  for (const name of names) for (const row of family(rows, name)) shown.set(row.run, row);
  const tree = asTree([...shown.values()]);
  if (!tree.some(({ depth }) => depth > 0)) return html`<p class="muted">None of them was forked from another.</p>`;
  return html`<ul class="tree">${tree.map((row) => html`<li key=${row.run} style=${{ "--depth": row.depth }}>${row.depth > 0 && html`<span class="fork" aria-hidden="true">↳</span>`}
    ${names.includes(row.run) ? html`<${Swatch} at=${names.indexOf(row.run)} /><strong><${Link} href=${runPath(row.run)}>${row.run}</${Link}></strong>` : html`<${Link} href=${runPath(row.run)}>${row.run}</${Link}>`}
    ${row.depth > 0 && html`<span class="faint small">fork of ${row.parent} at step ${row.parent_step}</span>`}</li>`)}</ul>`;
}

function Section({ title, children }) {
  return html`<section class="section" aria-label=${title}><h2>${title}</h2>${children}</section>`;
}

export function ComparePage() {
  const [names, setNames] = useUrlState("runs", [], NAMES);
  const { rows } = useRunList();
  const runs = useRuns(names);
  const connected = useConnected();
  const results = names.map((name, at) => ({ id: name, at, ...(rows.find(({ run }) => run === name) ?? { run: name }) }));
  const there = runs.filter(({ status }) => status !== "gone" && status !== "unreadable");
  return html`<div class="page-head"><div><p class="faint small crumbs"><${Link} href="/runs">Runs</${Link}></p><h1>Compare</h1>
    <p class="lead">${names.length ? "One colour a run. Lines grow as the runs go on." : "Choose runs here, or in the list of runs."}</p></div></div>
    ${!connected && html`<p class="panel warn" role="alert">The server doesn't answer; trying again. What stands here is from before.</p>`}
    <div class="row"><${Chosen} runs=${runs} onRemove=${(name) => setNames(names.filter((other) => other !== name))} /><${Add} rows=${rows} names=${names} onAdd=${(name) => setNames([...names, name])} /></div>
    ${names.length > 0 && html`<${Section} title="Where they stand"><${Table} label="Results" columns=${RESULTS} rows=${results} /></${Section}>
      <${Section} title="Charts"><${Charts} runs=${runs} /></${Section}>
      <${Section} title="Settings that differ"><div class="differences"><${Differences} names=${there.map(({ name }) => name)} /></div></${Section}>
      <${Section} title="Forks"><${Tree} rows=${rows} names=${names} /></${Section}>`}`;
}
