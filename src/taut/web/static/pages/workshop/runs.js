// The runs of the world, a line a setting; and what is under way.
import { useState } from "preact/hooks";
import { fixed, percent } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { number } from "taut/lib/number.js";
import { Link, runPath } from "taut/lib/router.js";
import { Status } from "taut/pages/runs/status.js";
import { over, plusMinus, publishedFor, standing } from "taut/pages/workshop/groups.js";
import { stop } from "taut/pages/workshop/told.js";
import { Badge } from "taut/widgets/badge.js";
import { Table } from "taut/widgets/table.js";
import { Term } from "taut/widgets/term.js";

const FIRST_LINES = 12;

const TONES = { queued: "quiet", starting: "live", running: "live", failed: "bad" };

function progress(job, runs) {
  const run = runs.find((row) => row.run === job.name);
  if (run) return `step ${run.steps} of ${job.steps}`;
  return job.status === "starting" ? job.message || "loading PyTorch" : "";
}

function Job({ job, runs, onDone }) {
  const [said, say] = useState("");
  const press = async () => {
    try {
      say(await stop(job.name));
    } catch (error) {
      say(error.message);
    }
    onDone();
  };
  const run = runs.find((row) => row.run === job.name);
  const action = job.status === "failed" ? "Dismiss" : job.status === "queued" ? "Take away" : "Stop";
  return html`<li class="workshop-job"><${Badge} tone=${TONES[job.status]}>${job.status}</${Badge}>
    <span class="workshop-job-name">${run ? html`<${Link} href=${runPath(job.name)}>${job.name}</${Link}>` : job.name}</span>
    ${job.status === "failed" ? html`<pre class="wrap small bad">${job.message}</pre>` : html`<span class="faint small">${progress(job, runs)}</span>`}
    <button class="button small" onClick=${press} aria-label=${`${action} ${job.name}`}>${action}</button>
    ${said && html`<span class="faint small" role="status">${said}</span>`}</li>`;
}

/** Runs that wait, start, run, or died before there was a run. */
export function Jobs({ told, onDone }) {
  if (!told.jobs.length) return null;
  const waiting = told.jobs.filter(({ status }) => status === "queued").length;
  return html`<section class="workshop-jobs" aria-label="Under way"><ul>${told.jobs.map((job) => html`<${Job} key=${job.name} job=${job} runs=${told.runs} onDone=${onDone} />`)}</ul>
    ${waiting > 0 && html`<p class="slider-note">${told.limit} run at a time, one for each core. The queue is in the server's memory: when the server ends it goes, while what runs goes on.</p>`}</section>`;
}

function Shown({ row, shown, onShow }) {
  const place = shown.indexOf(row.key);
  return html`<label class="workshop-shown"><input type="checkbox" checked=${place >= 0} onChange=${() => onShow(row.key)} aria-label=${`Show ${row.label}`} />
    <span class="workshop-colour" style=${place >= 0 ? { background: `var(--s${(place % 8) + 1})` } : {}} aria-hidden="true"></span></label>`;
}

function name({ label, runs }) {
  const seedOf = (run) => run.settings["run.seed"];
  const sorted = [...runs].sort((a, b) => seedOf(a) - seedOf(b));
  return html`<span>${label} <span class="workshop-seeds small">${runs.length === 1 ? "seed" : "seeds"} ${sorted.map((run) => html`<${Link} key=${run.run} href=${runPath(run.run)} title=${run.run} aria-label=${`seed ${seedOf(run)}, ${run.run}`}>${seedOf(run)}</${Link}> `)}</span></span>`;
}

function figure(row, metric, published, print) {
  const own = plusMinus(over(row, metric), print);
  return html`<span>${own}</span>${published !== undefined && published !== null && html`<span class="workshop-published" title="published">published ${print(published)}</span>`}`;
}

function columns(told, shown, onShow) {
  const published = (row) => (row.fault ? undefined : publishedFor(row.settings, told.defaults, told.published));
  return [
    { key: "shown", label: html`<span class="visually-hidden">Shown in the charts</span>`, show: (row) => html`<${Shown} ...${{ row, shown, onShow }} />` },
    { key: "label", label: "Setting", show: name },
    { key: "status", label: "Status", show: (row) => html`<${Status} status=${standing(row)} />` },
    { key: "share", label: html`<${Term} name="clipped share">Clipped</${Term}>`, number: true, show: (row) => figure(row, "clip/binding", published(row)?.share, percent) },
    { key: "reward", label: "Reward, last 5 steps", number: true, show: (row) => figure(row, "reward/mean", published(row)?.reward, (value) => fixed(value, 2)) },
    { key: "accuracy", label: "Held-out accuracy", number: true, show: (row) => figure(row, "eval/accuracy", published(row)?.accuracy, (value) => percent(value, 0)) },
    { key: "gauge", label: "The gauge says", show: (row) => html`<${Gauge} row=${row} />` },
  ];
}

/** The words of the newest run, and of the checks that fired in it. */
function Gauge({ row }) {
  const run = row.runs.at(-1);
  if (!number(run.steps)) return html`<span class="faint">–</span>`;
  const words = row.fault ? "" : run.gauge || (row.settings["algorithm.epochs"] * row.settings["algorithm.minibatches"] === 1 ? "one optimiser step a batch: the ratio is 1, and nothing can be clipped" : "");
  const failed = run.fired.filter(({ level }) => level === "error");
  return html`<span class="small">${words}</span>${failed.map(({ name: check, message }) => html` <${Badge} key=${check} tone="bad" title=${message}>${check}</${Badge}>`)}`;
}

/** The article's figures; a dash where it tells none. */
export function Published({ told, open }) {
  const columns = [
    { key: "setting", label: "Setting", show: ({ epochs, clip }) => `${epochs} ${epochs === 1 ? "epoch" : "epochs"}, ε ${clip}` },
    { key: "share", label: "Clipped", number: true, show: ({ share }) => percent(share) },
    { key: "reward", label: "Reward", number: true, show: ({ reward }) => fixed(reward) },
    { key: "accuracy", label: "Held-out accuracy", number: true, show: ({ accuracy }) => percent(accuracy, 0) },
  ];
  const rows = told.published.map((row, id) => ({ ...row, id }));
  return html`<details open=${open} class="workshop-article"><summary class="small">Published figures</summary><${Table} label="Published figures" columns=${columns} rows=${rows} />
    <p class="slider-note">Those of the article “PPO in Detail”, for 40 steps of this experiment; yours come from another model and other seeds. Seeds differ a great deal: judge by several. Where several ran, a number is mean ± standard deviation over the seeds.</p></details>`;
}

export function RunsTable({ told, groups, shown, onShow }) {
  const [all, setAll] = useState(false);
  const rows = (all ? groups : groups.slice(0, FIRST_LINES)).map((group) => ({ ...group, id: group.key }));
  return html`<${Table} label="Runs of the built-in world" columns=${columns(told, shown, onShow)} rows=${rows} empty="No run of the built-in world yet. Press Run." />
    ${groups.length > FIRST_LINES && html`<button class="text-button" onClick=${() => setAll(!all)}>${all ? "Show the newest alone" : `Show all ${groups.length}`}</button>`}`;
}
