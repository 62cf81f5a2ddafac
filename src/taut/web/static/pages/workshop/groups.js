// Runs that differ in their seed alone are one curve, one line of a table, one cell of the heat map.
import { number } from "taut/lib/number.js";
import { spread } from "taut/maths/seeds.js";

const EPOCHS = "algorithm.epochs";
const LOW = "algorithm.clip_low";
const HIGH = "algorithm.clip_high";
const OTHERS_SAID = 2;
const ADVANTAGES = { "batch-mean": "batch mean", "group-standardized": "group", "leave-one-out": "leave-one-out", gae: "critic and GAE" };

function epsilon(value) {
  return value === null || value === undefined ? "open" : String(value);
}

/** The settings of a run that the page has no choice for, and that aren't as the page would have them. */
function othersOf(settings, defaults) {
  return Object.keys(settings).filter((key) => !(key in defaults));
}

/** What tells one curve from another, in a text that may stand in an address: "world" where all is as the world has it. */
export function keyOf(settings, defaults, fault = null) {
  const idle = settings["kl.placement"] === "none" ? ["kl.coefficient", "kl.estimator"] : [];
  const own = Object.keys(defaults)
    .filter((key) => key !== "run.seed" && !idle.includes(key) && settings[key] !== defaults[key])
    .map((key) => `${key.split(".").pop()}=${settings[key]}`); // the last parts differ from one another
  const others = othersOf(settings, defaults).sort().map((key) => `${key}=${encodeURIComponent(JSON.stringify(settings[key]))}`);
  return [...(fault ? [`fault=${fault}`] : []), ...own, ...others].join(",") || "world";
}

/** The first of the other settings, the preset before all, and how many more there are. */
function othersInWords(settings, defaults) {
  const keys = othersOf(settings, defaults).sort((a, b) => b.endsWith(".preset") - a.endsWith(".preset"));
  const rest = keys.length - OTHERS_SAID;
  const said = keys.slice(0, OTHERS_SAID).map((key) => `${key.split(".").pop().replaceAll("_", " ")} ${settings[key] ?? "none"}`);
  return [...said, rest > 0 && `+ ${rest} other ${rest === 1 ? "setting" : "settings"}`];
}

const advantageWords = (name) => (Object.hasOwn(ADVANTAGES, name) ? ADVANTAGES[name] : name);

/** The same in words. Epochs and ε are always said. */
export function labelOf(settings, defaults, fault = null) {
  const s = settings;
  const clip = s[LOW] === s[HIGH] ? epsilon(s[LOW]) : `${epsilon(s[LOW])} / ${epsilon(s[HIGH])}`;
  const differs = (key) => s[key] !== defaults[key];
  const kl = s["kl.placement"] !== "none";
  return [
    fault && `broken: ${fault}`,
    `${s[EPOCHS]} ${s[EPOCHS] === 1 ? "epoch" : "epochs"}, ε ${clip}`,
    differs("algorithm.minibatches") && `${s["algorithm.minibatches"]} minibatches`,
    differs("algorithm.advantage") && advantageWords(s["algorithm.advantage"]),
    differs("optimizer.learning_rate") && `step size ${s["optimizer.learning_rate"]}`,
    differs("optimizer.max_grad_norm") && `gradient norm ${s["optimizer.max_grad_norm"]}`,
    kl && `KL in the ${s["kl.placement"]} ${s["kl.coefficient"]}`,
    differs("learner.micro_batch_tokens") && `micro-batches of ${s["learner.micro_batch_tokens"]} tokens`,
    differs("run.steps") && `${s["run.steps"]} ${s["run.steps"] === 1 ? "step" : "steps"}`,
    ...othersInWords(s, defaults),
  ].filter(Boolean).join(", ");
}

/** Groups in the order of their newest run, that first: {key, label, settings, fault, runs}. */
export function groupsOf(runs, defaults) {
  const groups = new Map();
  for (const run of runs) {
    const key = keyOf(run.settings, defaults, run.fault);
    if (groups.has(key)) {
      groups.get(key).runs.push(run);
    } else {
      groups.set(key, { key, label: labelOf(run.settings, defaults, run.fault), settings: run.settings, fault: run.fault, runs: [run] });
    }
  }
  const newest = ({ runs: own }) => Math.max(...own.map(({ created }) => created));
  return [...groups.values()].sort((a, b) => newest(b) - newest(a));
}

/** The newest run of each seed: the same seed again is no second sample. */
export function seedsOnce(runs) {
  return [...new Map(runs.map((run) => [run.settings["run.seed"], run])).values()];
}

/** One number of a group: mean and standard deviation over the seeds that have it. */
export function over({ runs }, metric) {
  return spread(seedsOnce(runs).map((run) => number(run[metric]) ?? NaN));
}

/** "0.731 ± 0.093", or "0.731" of one run; `print` makes a text of a number. */
export function plusMinus({ n, mean, sd }, print) {
  if (!n) return "–";
  return n > 1 ? `${print(mean)} ± ${print(sd)}` : print(mean);
}

/** The published row of a setting, if its figures are for that: 40 steps, and every setting as the world has it. */
export function publishedFor(settings, defaults, published) {
  const { [EPOCHS]: epochs, [LOW]: low, [HIGH]: high } = settings;
  const plain = { ...settings, [EPOCHS]: defaults[EPOCHS], [LOW]: defaults[LOW], [HIGH]: defaults[HIGH] };
  if (low !== high || keyOf(plain, defaults) !== "world") return undefined;
  return published.find((row) => row.epochs === epochs && row.clip === low);
}

/** The word for a group's standing: what its liveliest run is at. */
export function standing(group) {
  const statuses = group.runs.map(({ status }) => status);
  return ["running", "dead", "failed", "interrupted"].find((status) => statuses.includes(status)) ?? "finished";
}
