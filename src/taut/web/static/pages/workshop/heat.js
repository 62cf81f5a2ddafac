// Epochs against ε: a cell a setting, filled in as its runs end.
import { fixed, percent } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { navigate, runPath } from "taut/lib/router.js";
import { useUrlState } from "taut/lib/url_state.js";
import { keyOf, over, plusMinus } from "taut/pages/workshop/groups.js";
import { Segmented } from "taut/widgets/segmented.js";

const EPOCHS = [1, 2, 4, 8, 16];
const CLIPS = [0.05, 0.1, 0.2, 0.3, 0.5];
const FIGURES = {
  "eval/accuracy": { label: "held-out accuracy", print: (value) => percent(value, 0), full: 1 },
  "clip/binding": { label: "clipped share", print: percent, full: 0.3 },
  "reward/mean": { label: "reward", print: (value) => fixed(value, 2), full: 1 },
};
const NUMBERS = (all) => ({
  parse: (text) => { const chosen = all.filter((value) => text.split(",").includes(String(value))); return chosen.length ? chosen : undefined; },
  print: (values) => values.join(","),
});
const FIGURE = { parse: (text) => (Object.hasOwn(FIGURES, text) ? text : undefined), print: String };

function Axis({ label, all, chosen, onChange }) {
  const press = (value) => {
    const next = all.filter((other) => (other === value ? !chosen.includes(value) : chosen.includes(other)));
    if (next.length) onChange(next);
  };
  return html`<fieldset class="heat-axis"><legend>${label}</legend><div class="segments">${all.map((value) => html`<label key=${value} data-checked=${chosen.includes(value) || undefined}>
    <input type="checkbox" checked=${chosen.includes(value)} onChange=${() => press(value)} /><span>${value}</span></label>`)}</div></fieldset>`;
}

/** What stands for one pair: its settings, its group if any, and the jobs that will fill it. */
function cellOf(epochs, clip, { told, groups, settings }) {
  const own = { ...settings, "algorithm.epochs": epochs, "algorithm.clip_low": clip, "algorithm.clip_high": clip };
  const key = keyOf({ ...told.defaults, ...own }, told.defaults);
  const jobs = told.jobs.filter((job) => !job.fault && job.status !== "failed" && keyOf({ ...told.defaults, ...job.settings }, told.defaults) === key);
  return { epochs, clip, settings: own, key, jobs, group: groups.find((group) => group.key === key) };
}

/** The seeds that have neither a finished run nor a job. */
function missing(cell, seeds) {
  const made = (cell.group?.runs ?? []).filter(({ status }) => status === "finished" || status === "running").map((run) => run.settings["run.seed"]);
  const coming = cell.jobs.map(({ seed }) => seed);
  return seeds.filter((seed) => !made.includes(seed) && !coming.includes(seed));
}

function Cell({ cell, figure }) {
  const { label, print, full } = FIGURES[figure];
  const ended = cell.group ? { ...cell.group, runs: cell.group.runs.filter(({ status }) => status !== "running") } : null;
  const value = ended?.runs.length ? over(ended, figure) : { n: 0 };
  const running = cell.group?.runs.find(({ status }) => status === "running");
  const job = cell.jobs[0];
  const at = running ? `step ${running.steps} of ${running.settings["run.steps"]}` : job?.status;
  const where = `${cell.epochs} epochs, ε ${cell.clip}`;
  if (!value.n) return html`<td class="heat-cell"><span class=${at ? "heat-live small" : "faint"}>${at ?? "–"}</span></td>`;
  const part = Math.max(0, Math.min(1, value.mean / full));
  const newest = ended.runs.at(-1);
  return html`<td class="heat-cell" data-strong=${part > 0.55 || undefined} style=${{ "--part": `${Math.round(100 * part)}%` }}>
    <button class="heat-value" onClick=${() => navigate(runPath(newest.run))} aria-label=${`${where}: ${label} ${plusMinus(value, print)}. Open the run`} title=${newest.run}>
      <span>${print(value.mean)}</span>${value.n > 1 && html`<span class="small">± ${print(value.sd)}</span>`}${at && html`<span class="small">${at}</span>`}</button></td>`;
}

export function HeatMap({ told, groups, settings, seeds, run, busy }) {
  const [epochs, setEpochs] = useUrlState("he", [1, 4, 8], NUMBERS(EPOCHS));
  const [clips, setClips] = useUrlState("hc", [0.1, 0.2, 0.5], NUMBERS(CLIPS));
  const [figure, setFigure] = useUrlState("hf", "eval/accuracy", FIGURE);
  const rows = epochs.map((count) => clips.map((clip) => cellOf(count, clip, { told, groups, settings })));
  const wanted = rows.flat().flatMap((cell) => missing(cell, seeds).map((seed) => ({ settings: { ...cell.settings, "run.seed": seed } })));
  const steps = settings["run.steps"] ?? told.defaults["run.steps"];
  return html`<section class="section" aria-labelledby="heat"><h2 id="heat">Epochs against ε</h2>
    <p class="muted">How often a batch is used, and how far the policy may go from it. Everything else, ${steps} steps and ${seeds.length === 1 ? `seed ${seeds[0]}` : `${seeds.length} seeds`} too, is as chosen above. Runs that there are already count.</p>
    <div class="heat-choices"><${Axis} label="Epochs" all=${EPOCHS} chosen=${epochs} onChange=${setEpochs} /><${Axis} label="ε" all=${CLIPS} chosen=${clips} onChange=${setClips} />
      <${Segmented} label="Colour and number" options=${Object.entries(FIGURES).map(([value, { label }]) => ({ value, label }))} value=${figure} onChange=${setFigure} /></div>
    <div class="scroll-x" tabindex="0" role="region" aria-label="Heat map"><table class="heat"><caption class="visually-hidden">${FIGURES[figure].label} by epochs and ε</caption>
      <thead><tr><th scope="col" class="faint small">epochs ↓ ε →</th>${clips.map((clip) => html`<th scope="col" key=${clip}>${clip}</th>`)}</tr></thead>
      <tbody>${rows.map((cells, at) => html`<tr key=${epochs[at]}><th scope="row">${epochs[at]}</th>${cells.map((cell) => html`<${Cell} key=${cell.key} cell=${cell} figure=${figure} />`)}</tr>`)}</tbody></table></div>
    <button class="button" disabled=${busy || !wanted.length || wanted.length > 100} onClick=${() => run(wanted)}>${wanted.length ? `Run the ${wanted.length} that ${wanted.length === 1 ? "is" : "are"} missing` : "Nothing is missing"}</button>
    ${wanted.length > 100 && html`<p class="warn">At most 100 runs at once: choose fewer seeds or cells.</p>`}
  </section>`;
}
