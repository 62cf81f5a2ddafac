// The workshop: PPO from the page, in seconds.
import { useState } from "preact/hooks";
import { html } from "taut/lib/html.js";
import { useUrlState } from "taut/lib/url_state.js";
import { Broken } from "taut/pages/workshop/broken.js";
import { ClipChart, LearningChart, useCurves } from "taut/pages/workshop/curves.js";
import { groupsOf, keyOf } from "taut/pages/workshop/groups.js";
import { HeatMap } from "taut/pages/workshop/heat.js";
import { Jobs, Published, RunsTable } from "taut/pages/workshop/runs.js";
import { Settings, named, seedsOf, settingsOf, useChoices } from "taut/pages/workshop/settings.js";
import { start, useWorkshop } from "taut/pages/workshop/told.js";
import { Code } from "taut/widgets/code.js";
import { Slider } from "taut/widgets/slider.js";

const KEYS = { parse: (text) => text.split("|").filter(Boolean), print: (keys) => keys.join("|") };
const MOST_SHOWN = 8;

/** `taut train` with what differs from the world's own run. */
function command(settings, seed) {
  const flags = Object.entries({ ...settings, ...(seed ? { "run.seed": seed } : {}) }).map(([key, value]) => ` --${key} ${value}`);
  return `taut train${flags.join("")}`;
}

/** Starts runs and shows them: {run(list of {settings, fault}), busy, error}. */
function useStart(ask, told, show) {
  const [state, setState] = useState({ busy: false, error: undefined });
  const run = async (runs) => {
    setState({ busy: true, error: undefined });
    try {
      await start(runs);
      show(runs.map(({ settings, fault }) => keyOf({ ...told.defaults, ...settings }, told.defaults, fault)));
      setState({ busy: false, error: undefined });
    } catch (error) {
      setState({ busy: false, error: error.message });
    }
    ask();
  };
  return { ...state, run };
}

function Charts({ told, groups, shown }) {
  const [smoothing, setSmoothing] = useUrlState("smooth", 0, { parse: (text) => (Number(text) >= 0 && Number(text) <= 0.95 ? Number(text) : undefined), print: String });
  const curves = useCurves(shown.map((key) => groups.find((group) => group.key === key)));
  if (!curves.length) return html`<p class="muted workshop-empty">The curves of a run stand here. Press Run: 40 steps take some seconds.</p>`;
  return html`<div class="workshop-charts"><${LearningChart} ...${{ curves, told, smoothing }}><div class="workshop-smoothing"><${Slider} label="Smoothing of both charts" value=${smoothing} min=${0} max=${0.95} step=${0.05} onInput=${setSmoothing} /></div></${LearningChart}>
      <${ClipChart} ...${{ curves, told, smoothing }} /></div>`;
}

function Workshop({ told, ask }) {
  const choices = useChoices();
  const groups = groupsOf(told.runs, told.defaults);
  const [chosen, setShown] = useUrlState("show", [], KEYS);
  const shown = chosen.length ? chosen : groups.filter(({ fault }) => !fault).slice(0, 1).map(({ key }) => key);
  const show = (keys) => setShown((old) => [...new Set([...keys, ...old])].slice(0, MOST_SHOWN));
  const toggle = (key) => setShown(shown.includes(key) ? shown.filter((other) => other !== key) : [...shown, key].slice(-MOST_SHOWN));
  const starting = useStart(ask, told, show);
  const settings = named(settingsOf(choices.values), told.defaults);
  const seeds = seedsOf(choices.values);
  const run = () => starting.run(seeds.map((seed) => ({ settings: { ...settings, "run.seed": seed } })));
  return html`<div class="workshop-top">
      <div class="stack"><${Settings} choices=${choices} told=${told} onRun=${run} busy=${starting.busy} error=${starting.error} />
      <${Code} title="The same in a terminal" source=${command(settings, choices.values.seed)} /></div>
      <div class="stack workshop-results"><${Jobs} told=${told} onDone=${ask} /><${Charts} ...${{ told, groups, shown }} />
      <${RunsTable} told=${told} groups=${groups} shown=${shown} onShow=${toggle} />
      <${Published} told=${told} open=${!groups.length || undefined} /></div>
    </div>
    <${HeatMap} ...${{ told, groups, settings, seeds, run: starting.run, busy: starting.busy }} />
    <${Broken} ...${{ told, groups, settings, seeds, run: starting.run, busy: starting.busy }} />`;
}

export function WorkshopPage() {
  const { told, error, ask } = useWorkshop();
  return html`<div class="page-head"><div><h1>Workshop</h1>
    <p class="lead">Run PPO on a small model that answers sums carelessly, on this machine, in seconds. Use each batch more often, widen the leash, change the baseline, and see what is learned and what the clip holds.</p></div></div>
    ${error && html`<p class="bad" role="alert">${error.message}</p>`}
    ${told ? html`<${Workshop} told=${told} ask=${ask} />` : !error && html`<p class="muted">Reading the runs…</p>`}`;
}
