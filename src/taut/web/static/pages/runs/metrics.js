// Which metrics are drawn together, under what title, and what each means.
import { percent, short } from "taut/lib/format.js";
import { METRICS } from "taut/pages/runs/definitions.js";

// [key, title, whether it's open at first, [[title of a chart, its metrics by name or pattern, more properties], ...]]
const GROUPS = [
  ["learning", "Learning", true, [
    ["Reward", ["reward/mean", "reward/shaped"]],
    ["Held-out accuracy", ["eval/accuracy", "eval/greedy"]],
    ["Entropy", ["entropy"]],
  ]],
  ["clip", "The clip", true, [
    ["Clipped share", ["clip/binding", "clip/outside"]],
    ["Clipped share by epoch", /^clip\/epoch_\d+$/],
    ["Ratio ρ", ["ratio/p01", "ratio/p50", "ratio/p99", "ratio/mean"]],
  ]],
  ["sides", "The clip by side and sign", false, [
    ["Clipped share by side", ["clip/high", "clip/low", "clip/dual"]],
    ["Clipped by sign of A", ["clip/binding_positive", "clip/binding_negative"]],
    ["Outside by side and sign", /^clip\/outside_(high|low|positive|negative)$/],
    ["Outside by epoch", /^clip\/outside_epoch_\d+$/],
    ["Ratio ρ, extremes", ["ratio/min", "ratio/max"], { log: true }],
  ]],
  ["distance", "How far the policy moves", true, [
    ["KL from the batch's policy", ["kl/old_k1", "kl/old_k3"]],
    ["KL from the reference", /^kl\/ref_k\d$/],
    ["KL from the reference, a reply", /^kl\/ref_k\d_reply$/],
    ["KL coefficient β", ["kl/coefficient"]],
    ["Sampler and learner apart", ["mismatch/mean", "mismatch/max"], { log: true }],
  ]],
  ["critic", "Advantages and the critic", false, [
    ["Advantage", ["advantage/mean", "advantage/std"]],
    ["Explained variance", ["value/explained_variance"]],
    ["Value loss", ["value/loss"]],
    ["Value", ["value/mean"]],
    ["Value clipped", ["value/clipped"]],
  ]],
  ["replies", "Replies and reward terms", false, [
    ["Length", ["reply/length"]],
    ["Cut replies", ["reply/truncated"]],
    ["Spread of the reward", ["reward/std"]],
    ["Left out, resampled", ["reply/excluded", "reply/resampled"]],
    ["Turns", ["reply/turns"]],
    ["Held-out replies without a reward", ["eval/failed"]],
  ]],
  ["update", "The update", false, [
    ["Policy loss", ["loss/policy"]],
    ["Gradient norm", ["grad/norm", "grad/critic_norm"]],
    ["Optimiser steps", ["update/steps", "update/skipped", "update/not_finite"]],
    ["Learning rate", ["learning_rate"]],
    ["Pads fed", ["update/padding"]],
  ]],
  ["time", "Time and machine", false, [
    ["Seconds a step", /^time\//],
    ["Tokens a second", ["rate/tokens"]],
    ["Cores in use", ["system/cores"]],
    ["Memory", ["system/memory", "system/gpu_memory"]],
  ]],
];
const HOME = { reward: "replies", reply: "replies", clip: "sides", ratio: "sides", kl: "distance", mismatch: "distance", eval: "learning", value: "critic", advantage: "critic", loss: "update", grad: "update", update: "update", time: "time", rate: "time", system: "time" };

/** [{key, title, open, charts: [{title, metrics, log}]}] of the metrics that there are; none is left out. */
export function grouped(names) {
  const left = new Set(names);
  const take = (wanted) => {
    const there = names.filter((name) => left.has(name) && (Array.isArray(wanted) ? wanted.includes(name) : wanted.test(name)));
    for (const name of there) left.delete(name);
    return Array.isArray(wanted) ? wanted.filter((name) => there.includes(name)) : there;
  };
  const groups = GROUPS.map(([key, title, open, charts]) => ({ key, title, open, charts: charts.map(([name, wanted, more]) => ({ title: name, metrics: take(wanted), ...more })).filter(({ metrics }) => metrics.length) }));
  const others = { key: "other", title: "Other", open: false, charts: [] };
  for (const name of [...left].sort()) {
    const kind = name.split("/")[0];
    const home = groups.find(({ key }) => Object.hasOwn(HOME, kind) && key === HOME[kind]) ?? others;
    home.charts.push({ title: name, metrics: [name] });
  }
  return [...groups, others].filter(({ charts }) => charts.length);
}

/** [what it is, unit, over, good range] of a metric, also of one of a family; undefined where it's nobody's. */
export function definition(name) {
  const epoch = name.replace(/epoch_\d+$/, "epoch_1");
  const [group, , ...rest] = name.split("/");
  const family = group === "reward" ? (rest.length === 0 ? "reward/NAME" : rest.at(-1) === "failed" ? "reward/NAME/failed" : "reward/NAME/METRIC") : undefined;
  const known = [name, epoch, family].find((key) => Object.hasOwn(METRICS, key));
  return METRICS[known];
}

/** A definition in one text, for a hover. */
export function story(name) {
  const found = definition(name);
  if (!found) return undefined;
  const [what, unit, over, good] = found;
  return `${name}: ${what}. Unit: ${unit}. Over: ${over}.${good ? ` Good: ${good}.` : ""}`;
}

/** How a chart of these metrics prints its values. */
export function formatOf(metrics) {
  return metrics.every((name) => definition(name)?.[1] === "share") ? (value) => percent(value) : short;
}
