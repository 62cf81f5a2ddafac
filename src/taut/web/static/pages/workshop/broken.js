// Breakage switches: a run that is wrong on purpose beside one that is not, and the check that sees it.
import { short } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { Link, runPath } from "taut/lib/router.js";
import { useUrlState } from "taut/lib/url_state.js";
import { CHECKS } from "taut/pages/runs/definitions.js";
import { curveOf, useCurves } from "taut/pages/workshop/curves.js";
import { keyOf } from "taut/pages/workshop/groups.js";
import { named } from "taut/pages/workshop/settings.js";
import { Badge } from "taut/widgets/badge.js";
import { Chart } from "taut/widgets/chart.js";
import { Segmented } from "taut/widgets/segmented.js";

const COLOURS = { healthy: "--s1", broken: "--s2" };

/** The settings both runs of a pair have. */
function pairSettings(settings, fault, defaults) {
  return named({ ...settings, ...fault.settings }, defaults);
}

/** Newest first: the broken runs of a fault, with what they need to be compared. */
function pairOf(groups, settings, fault, defaults) {
  const whole = { ...defaults, ...settings };
  const find = (name) => groups.find(({ key }) => key === keyOf(whole, defaults, name));
  return { broken: find(fault.name), healthy: find(null) };
}

/** What a check is there for, as docs/checks.md has it. */
function Story({ name }) {
  const [says, ...rest] = Object.hasOwn(CHECKS, name) ? CHECKS[name] : [];
  if (!says) return null;
  return html`<details class="small"><summary>What ${name} checks</summary>${[says, ...rest].map((text) => html`<p class="muted" key=${text}>${text}</p>`)}</details>`;
}

function Fired({ run, fault }) {
  if (!run) return null;
  const failed = run.fired.filter(({ level }) => level === "error");
  if (!failed.length) {
    return html`<p role="status">${run.steps ? html`<span class="warn">No check has fired yet.</span>` : html`<span class="faint">The checks are asked after the first step.</span>`}</p>`;
  }
  const [first] = [...failed].sort((a, b) => (b.name === fault.check) - (a.name === fault.check));
  return html`<div role="status"><p><${Badge} tone="bad">${first.name}</${Badge}> fired at step ${first.step} of <${Link} href=${runPath(run.run)}>${run.run}</${Link}>: <span class="wrap">${first.message}.</span></p>
    <${Story} name=${first.name} />
    ${failed.length > 1 && html`<p class="small muted">So did ${failed.filter((each) => each !== first).map(({ name }) => html`<${Badge} key=${name} tone="bad">${name}</${Badge}> `)}</p>`}</div>`;
}

function PairChart({ title, pair, metric }) {
  const present = Object.entries(pair).filter(([, group]) => group);
  const curves = useCurves(present.map(([, group]) => group));
  const series = curves.flatMap(({ runs }, at) => {
    const curve = curveOf(runs, metric);
    const [name] = present[at];
    return curve ? [{ label: name, ...curve, color: COLOURS[name], dashed: name === "healthy" }] : [];
  });
  return html`<${Chart} title=${title} series=${series} xLabel="step" height=${220} format=${short} />`;
}

export function Broken({ told, groups, settings, seeds, run, busy }) {
  const names = told.faults.map(({ name }) => name);
  const [chosen, choose] = useUrlState("fault", names[0], { parse: (text) => (names.includes(text) ? text : undefined), print: String });
  const fault = told.faults.find(({ name }) => name === chosen);
  const own = pairSettings(settings, fault, told.defaults);
  const pair = pairOf(groups, own, fault, told.defaults);
  const seed = { "run.seed": seeds[0] };
  const press = () => {
    const wanted = [{ settings: { ...own, ...seed }, fault: chosen }];
    const there = pair.healthy?.runs.some((each) => each.settings["run.seed"] === seeds[0] && each.status !== "failed");
    run(there ? wanted : [...wanted, { settings: { ...own, ...seed } }]);
  };
  const changed = Object.entries(fault.settings).map(([key, value]) => `${key} ${value}`);
  return html`<section class="section" aria-labelledby="broken"><h2 id="broken">Break it on purpose</h2>
    <p class="muted">What goes wrong in PPO mostly goes wrong silently: the run goes on, and learns less. Each switch puts one such fault into the code of a run. No setting does that; the run says so in its name, and the check that is there for it fires.</p>
    <${Segmented} label="The fault" options=${names.map((name) => ({ value: name, label: name }))} value=${chosen} onChange=${choose} />
    <div class="workshop-broken"><div class="stack"><p>${fault.what} ${fault.why}</p>
        <p class="small muted">Expected: <${Badge} tone="quiet">${fault.check}</${Badge}> fails.${changed.length > 0 && ` Both runs have ${changed.join(", ")}, where it shows best; the rest is as chosen above.`}</p>
        <button class="button danger" disabled=${busy} onClick=${press}>Run it broken, and healthy beside it</button>
        <${Fired} run=${pair.broken?.runs.at(-1)} fault=${fault} /></div>
      ${(pair.broken || pair.healthy) && html`<${PairChart} key=${`reward ${chosen}`} title="Reward in training" pair=${pair} metric="reward/mean" />`}
      ${(pair.broken || pair.healthy) && html`<${PairChart} key=${`watch ${chosen}`} title=${fault.shows} pair=${pair} metric=${fault.watch} />`}</div>
  </section>`;
}
