// The metrics of one run or of several as charts, in groups that open and close.
import { useMemo } from "preact/hooks";
import { html } from "taut/lib/html.js";
import { subscripts } from "taut/lib/subscript.js";
import { useUrlState } from "taut/lib/url_state.js";
import { definition, formatOf, grouped, story } from "taut/pages/runs/metrics.js";
import { Chart } from "taut/widgets/chart.js";
import { Slider } from "taut/widgets/slider.js";

const LIST = { parse: (text) => text.split(" ").filter(Boolean), print: (keys) => keys.join(" ") };
const USEFUL = [{ y: 0.01, label: "wasted below", color: "--ink-3" }, { y: 0.11, label: "over-used above", color: "--ink-3" }];

/** What a chart's metrics mean, for who cannot hover. */
export function Meaning({ metrics }) {
  const known = metrics.filter(definition);
  if (!known.length) return null;
  return html`<details class="meaning"><summary>What ${metrics.length > 1 ? "these are" : "this is"}</summary>
    <dl>${known.map((name) => { const [what, unit, over, good] = definition(name); return html`<dt class="mono">${name}</dt><dd>${subscripts(what)} (${unit}; over ${over}).${good && html` <span class="muted">Good: ${subscripts(good)}.</span>`}</dd>`; })}</dl></details>`;
}

/** One chart of `runs`, snapshots of each: a line a metric of one run, or a line a run of one metric. */
function MetricChart({ title, metrics, runs, smoothing, log, judged }) {
  const several = runs.length > 1;
  const series = useMemo(() => runs.flatMap((run, at) => metrics.filter((metric) => run.scalars.has(metric)).map((metric) => ({
    label: several ? run.name : metric,
    ...run.scalars.get(metric),
    color: several ? `--s${(at % 8) + 1}` : undefined,
    dashed: several && at >= 8,
    note: story(metric),
  }))), [metrics, ...runs.map(({ scalars }) => scalars)]);
  const levels = judged && metrics.includes("clip/binding") ? USEFUL : undefined;
  return html`<${Chart} title=${title} series=${series} xLabel="step" smoothing=${smoothing} log=${log} levels=${levels} sync="run" format=${formatOf(metrics)}><${Meaning} metrics=${metrics} /></${Chart}>`;
}

/** Of several runs each metric has a chart of its own: lines of two kinds in the runs' colours would be a thicket. */
function apart(groups, runs) {
  const split = groups.map(({ charts, ...group }) => ({ ...group, charts: charts.flatMap((chart) => (chart.metrics.length > 1 ? chart.metrics.map((metric) => ({ ...chart, title: `${chart.title} · ${metric}`, metrics: [metric] })) : [chart])) }));
  const lonely = ({ metrics: [metric] }) => /epoch_\d+$/.test(metric) && runs.filter(({ scalars }) => scalars.has(metric)).length === 1;
  const one = { key: "one", title: "Epochs that only one run has", open: false, charts: split.flatMap(({ charts }) => charts.filter(lonely)) };
  return [...split.map((group) => ({ ...group, charts: group.charts.filter((chart) => !lonely(chart)) })), one].filter(({ charts }) => charts.length);
}

/** All metrics that any of `runs` has. `judged`: whether the useful range of the clipped share applies. */
export function Charts({ runs, judged }) {
  const [smoothing, setSmoothing] = useUrlState("smoothing", 0);
  const [search, setSearch] = useUrlState("metric", "");
  const [turned, setTurned] = useUrlState("groups", [], LIST);
  const names = [...new Set(runs.flatMap(({ scalars }) => [...scalars.keys()]))].sort(new Intl.Collator("en", { numeric: true }).compare);
  const key = names.join("\n");
  const groups = useMemo(() => (runs.length > 1 ? apart(grouped(names), runs) : grouped(names)), [[key, ...runs.map(({ name, scalars }) => `${name} ${scalars.size}`)].join("\n")]);
  const hits = search ? names.filter((name) => name.toLowerCase().includes(search.toLowerCase())) : null;
  const draw = ({ title, metrics, log }) => html`<${MetricChart} key=${title} ...${{ title, metrics, log, runs, smoothing, judged }} />`;
  const turn = (group) => setTurned((keys) => (keys.includes(group) ? keys.filter((other) => other !== group) : [...keys, group]));
  if (!names.length) return html`<p class="muted">No step yet.</p>`;
  return html`<div class="row chart-tools-row"><input class="field" type="search" aria-label="Search metrics" placeholder="Search metrics" value=${search} onInput=${(event) => setSearch(event.currentTarget.value)} />
      <${Slider} label="Smoothing" value=${smoothing} min=${0} max=${0.98} step=${0.02} onInput=${setSmoothing} /></div>
    ${hits ? html`<p class="faint small" role="status">${hits.length} of ${names.length} metrics</p><div class="charts">${hits.slice(0, 24).map((name) => draw({ title: name, metrics: [name] }))}</div>`
      : groups.map((group) => html`<${Group} key=${group.key} group=${group} open=${group.open !== turned.includes(group.key)} onTurn=${() => turn(group.key)} draw=${draw} />`)}`;
}

function Group({ group, open, onTurn, draw }) {
  return html`<section class="chart-group"><h3><button class="turn" aria-expanded=${open} onClick=${onTurn}><span aria-hidden="true">${open ? "▾" : "▸"}</span> ${group.title} <span class="faint small">${group.charts.length} ${group.charts.length === 1 ? "chart" : "charts"}</span></button></h3>
    ${open && html`<div class="charts">${group.charts.map(draw)}</div>`}</section>`;
}
