// The two charts: what was learned, and how much of it the clip held.
import { fixed, percent } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { useRuns } from "taut/lib/stream.js";
import { useUrlState } from "taut/lib/url_state.js";
import { byEpoch, meanCurve, withinSteps } from "taut/maths/seeds.js";
import { publishedFor, seedsOnce } from "taut/pages/workshop/groups.js";
import { Chart } from "taut/widgets/chart.js";
import { Segmented } from "taut/widgets/segmented.js";

const MOST_WATCHED = 60; // runs, of the 64 that a page may

/** [{group, runs: snapshots, color}] of the groups, as the stream tells them. A group that is not there is passed over. */
export function useCurves(wanted) {
  const groups = wanted.filter(Boolean);
  const names = groups.flatMap(({ runs }) => seedsOnce(runs).map(({ run }) => run)).slice(0, MOST_WATCHED);
  const snapshots = new Map(useRuns(names).map((snapshot) => [snapshot.name, snapshot]));
  return groups.map((group) => ({
    group,
    color: `--s${(wanted.indexOf(group) % 8) + 1}`,
    runs: seedsOnce(group.runs).map(({ run }) => snapshots.get(run)).filter(Boolean),
  }));
}

/** A metric of a group's runs as one curve; null where none has it yet. */
export function curveOf(runs, metric) {
  const curves = runs.map(({ scalars }) => scalars.get(metric)).filter(Boolean);
  return curves.length ? meanCurve(curves) : null;
}

function series(curves, metric, more = () => ({})) {
  return curves.flatMap(({ group, runs, color }) => {
    const curve = curveOf(runs, metric);
    return curve ? [{ label: group.label, ...curve, color, ...more(group) }] : [];
  });
}

/** Level lines of the published figures for what is shown, each once. */
function levels(curves, told, figure, words) {
  const rows = new Map();
  for (const { group, color } of curves) {
    const row = group.fault ? undefined : publishedFor(group.settings, told.defaults, told.published);
    if (row && row[figure] !== null) rows.set(row, color);
  }
  return [...rows].map(([row, color]) => ({ y: row[figure], label: `published ${words(row)}`, color }));
}

export function LearningChart({ curves, told, smoothing, children }) {
  const which = (group) => (curves.length > 1 ? `, ${group.label}` : "");
  const drawn = [
    ...series(curves, "reward/mean", (group) => ({ label: `reward${which(group)}` })),
    ...series(curves, "eval/accuracy", (group) => ({ label: `held out${which(group)}`, dashed: true, points: true })),
  ];
  const marks = [
    ...levels(curves, told, "reward", (row) => `reward ${fixed(row.reward)}`),
    ...levels(curves, told, "accuracy", (row) => `held-out ${percent(row.accuracy, 0)}`),
  ];
  return html`<${Chart} title="Reward in training, and accuracy on held-out sums" series=${drawn} xLabel="step" yMin=${0} yMax=${1} height=${300} smoothing=${smoothing} levels=${marks} format=${(value) => fixed(value, 3)}>${children}</${Chart}>`;
}

const SHARES = { binding: ["clip/binding", "clip/epoch_"], outside: ["clip/outside", "clip/outside_epoch_"] };

/** [{x, y}], the first epoch's first; of several seeds the means. */
function epochsOf(runs, prefix, epochs) {
  const curves = [];
  for (let epoch = 1; epoch <= epochs; epoch += 1) {
    const curve = curveOf(runs, `${prefix}${epoch}`);
    if (!curve) break;
    curves.push(curve);
  }
  return curves;
}

function shareSeries(curves, of, by) {
  const [whole, prefix] = SHARES[of];
  if (by === "steps") return series(curves, whole);
  return curves.flatMap(({ group, runs, color }) => {
    const epochs = epochsOf(runs, prefix, group.settings["algorithm.epochs"]);
    if (!epochs.length) return [];
    return [{ label: group.label, color, ...(by === "within" ? withinSteps(epochs) : { ...byEpoch(epochs), points: true }) }];
  });
}

const WORDS = {
  binding: "Held: outside the range on the side that the advantage favours. Its gradient is 0.",
  outside: "Outside: beyond the range on either side, whatever the advantage. Some of these still learn.",
};

const WITHIN = {
  false: " Each step's epochs stand one after the other: in a step's first epoch the policy is still that of its data, so the curve begins at 0 again.",
  true: " Each step's epochs stand one after the other, an epoch's minibatches as one: those after the first see a policy that has moved already.",
};

const ONE_OF = (values) => ({ parse: (text) => (values.includes(text) ? text : undefined), print: String });

export function ClipChart({ curves, told, smoothing }) {
  const [of, setOf] = useUrlState("share", "binding", ONE_OF(["binding", "outside"]));
  const [by, setBy] = useUrlState("by", "steps", ONE_OF(["steps", "within", "epochs"]));
  const marks = of === "binding" && by === "steps" ? levels(curves, told, "share", (row) => `mean ${percent(row.share)}`) : [];
  const choices = html`<div class="row workshop-choices">
    <${Segmented} label="Which tokens" hideLabel options=${[{ value: "binding", label: "held" }, { value: "outside", label: "outside" }]} value=${of} onChange=${setOf} />
    <${Segmented} label="By what" hideLabel options=${[{ value: "steps", label: "step by step" }, { value: "within", label: "epochs within steps" }, { value: "epochs", label: "by epoch" }]} value=${by} onChange=${setBy} /></div>
    <p class="slider-note">${WORDS[of]}${by === "within" ? WITHIN[curves.some(({ group }) => group.settings["algorithm.minibatches"] > 1)] : ""}</p>`;
  return html`<${Chart} title=${of === "binding" ? "Clipped share" : "Share outside the range"} series=${shareSeries(curves, of, by)} xLabel=${by === "epochs" ? "epoch" : "step"} yMin=${0} height=${300}
    smoothing=${by === "steps" ? smoothing : 0} levels=${marks} format=${percent}>${choices}</${Chart}>`;
}
