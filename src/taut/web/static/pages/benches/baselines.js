// What a reward becomes when it is compared: with the batch, with its prompt's group, with the group's others.
import { fixed, signed } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { useUrlState } from "taut/lib/url_state.js";
import { baseline, spread } from "taut/maths/advantage.js";
import { groupsCodec, python, replaced, tidy, within } from "taut/pages/benches/numbers.js";
import { Code } from "taut/widgets/code.js";
import { Readout } from "taut/widgets/readout.js";
import { Segmented } from "taut/widgets/segmented.js";
import { Figure, AxisY, Handle, linear } from "taut/widgets/svg.js";
import { Table } from "taut/widgets/table.js";

const GROUPS = [[1, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0.5, 0]];
const CODEC = groupsCodec({ most: 8, low: 0, high: 1 });
const BASELINES = [
  { value: "batch-mean", label: "batch mean", python: "batch_mean", words: "r − mean of the batch. A prompt that everybody solves still pushes its replies up, and one that nobody solves pushes them down." },
  { value: "group-mean", label: "group mean", python: "group_mean", words: "r − mean of the prompt's replies (Dr. GRPO). How hard the prompt is drops out." },
  { value: "group-standardized", label: "group (r − mean) ÷ std", python: "group_standardized", words: "(r − mean) ÷ std of the prompt's replies (GRPO). A prompt whose rewards hardly differ counts as much as any." },
  { value: "leave-one-out", label: "leave one out", python: "leave_one_out", words: "r − mean of the prompt's other replies (RLOO): the group mean's, times G / (G − 1)." },
];

function useBench() {
  const [groups, setGroups] = useUrlState("groups", GROUPS, CODEC);
  const [chosen, choose] = useUrlState("base", "group-standardized");
  const kind = BASELINES.find((one) => one.value === chosen) ?? BASELINES[2];
  const rewards = groups.flat();
  const index = groups.flatMap((group, at) => group.map(() => at));
  const all = Object.fromEntries(BASELINES.map(({ value }) => [value, baseline(value, rewards, index)]));
  const first = groups.map((_, at) => groups.slice(0, at).flat().length);
  const set = (group, list) => setGroups(replaced(groups, group, list));
  const move = (group, reply, value) => set(group, replaced(groups[group], reply, tidy(Math.round(within(value, 0, 1) * 100) / 100)));
  return { groups, kind, choose, rewards, index, all, first, move, level: (group) => set(group, groups[group].map(() => groups[group][0])) };
}

function source({ groups, kind }) {
  return `import torch
from taut.objective.advantage import ${kind.python}

groups = ${python(groups)}  # rewards, prompt by prompt
rewards = torch.tensor([reward for group in groups for reward in group], dtype=torch.float64)
prompt = torch.tensor([at for at, group in enumerate(groups) for _ in group])
advantages = ${kind.python}(rewards, prompt, valid=torch.ones(len(rewards), dtype=torch.bool))
print([round(x, 3) for x in advantages.tolist()])`;
}

/** One prompt: its rewards as points to be dragged, the mean they are held `against`, each advantage as a bar beneath. */
function GroupFigure({ group, at, advantages, move, level, most, against }) {
  const { mean, std, equal } = spread(group);
  const silent = advantages.every((value) => value === 0);
  const height = 250;
  const draw = (width) => {
    const x = linear([-0.5, group.length - 0.5], [38, width - 6]);
    const y = linear([0, 1], [118, 14]);
    const below = linear([-most, most], [height - 12, 138]);
    const bar = Math.min(30, (x(1) - x(0)) * 0.5);
    return html`<${AxisY} scale=${y} x=${38} grid=${width - 6} at=${[0, 0.5, 1]} label="reward" /><${AxisY} scale=${below} x=${38} grid=${width - 6} at=${[-most, 0, most]} format=${(value) => signed(value, 1)} label="advantage" />
      <line x1=${38} x2=${width - 6} y1=${y(against ?? mean)} y2=${y(against ?? mean)} stroke="var(--ink)" stroke-dasharray="5 4" />
      <line x1=${38} x2=${width - 6} y1=${below(0)} y2=${below(0)} stroke="var(--rule-2)" />
      ${advantages.map((value, reply) => html`<rect key=${reply} x=${x(reply) - bar / 2} width=${bar} y=${Math.min(below(0), below(value))} height=${Math.abs(below(value) - below(0))} fill=${value > 0 ? "var(--up)" : "var(--down)"} opacity="0.85" />`)}
      ${group.map((reward, reply) => html`<${Handle} key=${`h${reply}`} x=${x(reply)} y=${y(reward)} r=${7} color="var(--s5)" label=${`Reward of reply ${reply + 1} to prompt ${at + 1}`} value=${reward} min=${0} max=${1} text=${fixed(reward, 2)}
        onDrag=${(_, pixel) => move(at, reply, y.invert(pixel))} onKey=${(dx, dy) => move(at, reply, reward + 0.05 * (dx + dy))} />`)}`;
  };
  return html`<figure class="figure"><div class="bench-title"><h3>Prompt ${at + 1}</h3><span class="small muted">mean ${fixed(mean, 3)}, std ${fixed(std, 3)}</span><button class="text-button" onClick=${() => level(at)} disabled=${equal}>Make equal</button></div>
    <${Figure} label=${`Prompt ${at + 1}: rewards ${group.map((reward) => fixed(reward, 2)).join(", ")}; advantages ${advantages.map((value) => signed(value, 2)).join(", ")}`} height=${height} draw=${draw} />
    <p class="small ${silent ? "warn" : "muted"}" data-silent=${silent || undefined}>${silent ? "All rewards are equal: the group vanishes. Its replies were paid for and teach nothing." : equal ? "All equal, and yet it pushes: the baseline is the batch's." : " "}</p></figure>`;
}

function columnsOf(kind) {
  const cell = (name) => (row) => html`<span data-cell=${name} class=${name === kind.value ? "bench-current" : undefined}>${signed(row.all[name], 3)}</span>`;
  return [
    { key: "id", label: "prompt · reply", show: (row) => `${row.group + 1} · ${row.reply + 1}` },
    { key: "reward", label: "reward", number: true, show: (row) => fixed(row.reward, 2) },
    ...BASELINES.map(({ value, label }) => ({ key: value, label, number: true, show: cell(value) })),
  ];
}

export function BaselinesBench() {
  const bench = useBench();
  const { groups, kind, rewards, index, all, first } = bench;
  const used = all[kind.value];
  const most = Math.max(1, Math.ceil(Math.max(...used.map(Math.abs)) * 2) / 2);
  const silent = groups.filter((group, at) => used.slice(first[at], first[at] + group.length).every((value) => value === 0)).length;
  const rows = rewards.map((reward, id) => ({ id, reward, group: index[id], reply: id - first[index[id]], all: Object.fromEntries(BASELINES.map(({ value }) => [value, all[value][id]])) }));
  const against = kind.value === "batch-mean" ? spread(rewards).mean : undefined;
  const items = [{ label: "Batch mean", value: fixed(spread(rewards).mean, 3) }, { label: "Groups that vanish", value: `${silent} of ${groups.length}`, tone: silent ? "warn" : undefined }];
  return html`<div class="bench">
    <div class="bench-wide stack">
      <${Segmented} label="Baseline" options=${BASELINES} value=${kind.value} onChange=${bench.choose} />
      <${Readout} items=${items} words=${kind.words} />
    </div>
    <div class="bench-wide bench-groups">${groups.map((group, at) => html`<${GroupFigure} key=${at} ...${{ group, at, most, against }} move=${bench.move} level=${bench.level} advantages=${used.slice(first[at], first[at] + group.length)} />`)}</div>
    <div class="bench-numbers"><${Table} label="Advantages under each baseline" columns=${columnsOf(kind)} rows=${rows} /></div>
    <div class="bench-code"><${Code} source=${source(bench)} title="The same advantages in Python" /></div>
  </div>`;
}
