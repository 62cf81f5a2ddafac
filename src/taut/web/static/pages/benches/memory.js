// The four models of PPO in memory: what `taut plan` counts, for models of well-known shapes.
import { useRef } from "preact/hooks";
import { bytes, percent } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { useUrlState } from "taut/lib/url_state.js";
import { useData } from "taut/lib/use_data.js";
import { partsOf, party } from "taut/maths/memory.js";
import { Code } from "taut/widgets/code.js";
import { Readout } from "taut/widgets/readout.js";
import { Segmented } from "taut/widgets/segmented.js";
import { Select } from "taut/widgets/select.js";
import { AxisX, Figure, Hatch, linear } from "taut/widgets/svg.js";
import { Table } from "taut/widgets/table.js";
import { Toggle } from "taut/widgets/toggle.js";

const SIZES = ["SmolLM2-135M", "Qwen2.5-0.5B", "Qwen2.5-1.5B", "Llama-3.1-8B"].map((name) => ({ value: name, label: name }));
const REPLIES = ["256", "1024", "4096"].map((tokens) => ({ value: tokens, label: tokens }));
const ROWS = [["policy", "Policy", "var(--s1)"], ["critic", "Critic", "var(--s3)"], ["reference", "Reference", "var(--s7)"], ["reward model", "Reward model", "var(--s4)"], ["at work", "At work", "var(--s5)"]];
/** How dark a kind of term is drawn: what is held, what training holds beside it, what comes and goes. */
const OPACITY = [[/moments/, 0.55], [/gradients/, 0.3]];

function useBench() {
  const [size, setSize] = useUrlState("size", "Qwen2.5-0.5B");
  const [reply, setReply] = useUrlState("reply", "1024");
  const [critic, setCritic] = useUrlState("critic", true);
  const [reference, setReference] = useUrlState("kl", true);
  const [rewardModel, setRewardModel] = useUrlState("rm", true);
  const [lora, setLora] = useUrlState("lora", false);
  const [checkpointing, setCheckpointing] = useUrlState("recompute", false);
  const [bfloat16, setBfloat16] = useUrlState("bf16", false);
  const known = (options, value, at) => (options.some((option) => option.value === value) ? value : options[at].value);
  return {
    size: known(SIZES, size, 1), reply: known(REPLIES, reply, 1), critic, reference, rewardModel, lora, checkpointing, bfloat16,
    setSize, setReply, setCritic, setReference, setRewardModel, setLora, setCheckpointing, setBfloat16,
  };
}

const flag = (value) => (value ? "1" : "0");
const pythonFlag = (value) => (value ? "True" : "False");

function source({ size, reply, critic, reference, rewardModel, lora, checkpointing, bfloat16 }) {
  return `from taut.launch.textbook import textbook_memory

plan = textbook_memory(
    "${size}", reply=${reply}, critic=${pythonFlag(critic)}, reference=${pythonFlag(reference)}, reward_model=${pythonFlag(rewardModel)},
    lora=${pythonFlag(lora)}, checkpointing=${pythonFlag(checkpointing)}, bfloat16=${pythonFlag(bfloat16)},
)
for term in (*plan.held.terms, *plan.fullest.terms):
    print(term.name, term.bytes, sep=": ")
print("peak", plan.peak, sep=": ")`;
}

/** One row a model, its terms stacked; all rows to one scale. */
function StackFigure({ terms, peak, fullest, shared }) {
  const row = 46;
  const height = ROWS.length * row + 30;
  const rows = ROWS.map(([id, label, color]) => ({ id, label, color, terms: terms.filter((term) => party(term.name) === id) }));
  const longest = Math.max(...rows.map((one) => one.terms.reduce((sum, term) => sum + term.bytes, 0)));
  const draw = (width) => {
    const x = linear([0, longest], [100, width - 70]);
    return html`<${Hatch} id="at-work" color="var(--s5)" gap=${6} />
      <${AxisX} scale=${x} y=${ROWS.length * row + 4} grid=${0} count=${width < 500 ? 2 : 5} format=${bytes} />
      ${rows.map((one, at) => {
        let start = 0;
        const bars = one.terms.map((term) => {
          const from = start;
          start += term.bytes;
          const opacity = (OPACITY.find(([pattern]) => pattern.test(term.name)) ?? [null, 0.9])[1];
          return html`<rect key=${term.name} x=${x(from)} width=${Math.max(0.5, x(start) - x(from) - 1)} y=${at * row + 6} height=${row - 14} fill=${one.id === "at work" ? "url(#at-work)" : one.color} fill-opacity=${one.id === "at work" ? 1 : opacity} stroke=${one.color} stroke-width="1"><title>${term.name}: ${bytes(term.bytes)}</title></rect>`;
        });
        return html`<g key=${one.id}><text class="bench-row" x="92" y=${at * row + row / 2 + 4} text-anchor="end">${one.label}</text>${bars}
          <text class="bench-share" x=${x(start) + 6} y=${at * row + row / 2 + 4}>${start ? bytes(start) : shared && one.id === "reference" ? "the policy's base" : "none"}</text></g>`;
      })}`;
  };
  const said = rows.map((one) => `${one.label} ${bytes(one.terms.reduce((sum, term) => sum + term.bytes, 0))}`).join(", ");
  return html`<figure class="figure"><div class="bench-title"><h3>At the peak: ${bytes(peak)}</h3><span class="small muted">full weights, lighter moments, lightest gradients; hatched what comes and goes in “${fullest}”</span></div>
    <${Figure} label=${`Memory at the peak. ${said}`} height=${height} draw=${draw} /></figure>`;
}

function columnsOf(peak) {
  return [
    { key: "name", label: "term" }, { key: "party", label: "of" }, { key: "formula", label: "is" },
    { key: "bytes", label: "bytes", number: true, show: (row) => html`<span data-cell="bytes" data-bytes=${row.bytes}>${bytes(row.bytes)}</span>` },
    { key: "share", label: "share", number: true, show: (row) => percent(row.bytes / peak) },
  ];
}

function Controls(bench) {
  return html`<div class="bench-controls panel stack">
    <${Select} label="Model" options=${SIZES} value=${bench.size} onChange=${bench.setSize} />
    <${Segmented} label="Longest reply, tokens" options=${REPLIES} value=${bench.reply} onChange=${bench.setReply} />
    <${Toggle} label="Critic" value=${bench.critic} onChange=${bench.setCritic} describe="As large as the policy, and trained. GRPO and RLOO do without." />
    <${Toggle} label="Reference" value=${bench.reference} onChange=${bench.setReference} describe=${bench.lora ? "For the KL; it is the base under the adapters." : "A frozen copy, for the KL."} />
    <${Toggle} label="Reward model" value=${bench.rewardModel} onChange=${bench.setRewardModel} describe="As large as the policy, frozen. A reward by rule needs none." />
    <${Toggle} label="LoRA" value=${bench.lora} onChange=${bench.setLora} describe="Adapters of rank 16 train; one base serves policy, critic and reference." />
    <${Toggle} label="Gradient checkpointing" value=${bench.checkpointing} onChange=${bench.setCheckpointing} describe="Layers are computed again in the backward pass." />
    <${Toggle} label="Computed in bfloat16" value=${bench.bfloat16} onChange=${bench.setBfloat16} describe="Weights and moments stay float32." />
  </div>`;
}

export function MemoryBench() {
  const bench = useBench();
  const asked = { size: bench.size, reply: bench.reply, lora: flag(bench.lora), checkpointing: flag(bench.checkpointing), bfloat16: flag(bench.bfloat16) };
  const { data, error, loading } = useData(`/api/plan?${new URLSearchParams(asked)}`);
  const last = useRef(undefined);
  if (data) last.current = data;
  const plan = data ?? last.current;
  return html`<div class="bench">
    <${Controls} ...${bench} />
    <div class="bench-figures" aria-busy=${loading}>
      ${error && html`<p class="bad" role="alert">${error.message}</p>`}
      ${loading && html`<p class="muted" role="status">Counting what the model's shape makes of it${plan ? "; below is what was asked before" : "; the first time takes a few seconds"} …</p>`}
      ${plan && html`<${Found} bench=${bench} plan=${plan} stale=${!data} />`}
    </div>
    <div class="bench-code"><${Code} source=${source(bench)} title="The same bytes in Python" /></div>
  </div>`;
}

function Found({ bench, plan, stale }) {
  const { held, phase, heldBytes, peak } = partsOf(plan, { critic: bench.critic, reference: bench.reference, "reward model": bench.rewardModel });
  const terms = [...held, ...phase.terms];
  const largest = terms.reduce((most, term) => (term.bytes > most.bytes ? term : most));
  const items = [{ label: "Held all the time", value: bytes(heldBytes) }, { label: "Peak", value: bytes(peak), note: `in the ${phase.name}` }, { label: "Mostly", value: largest.name, note: percent(largest.bytes / peak) }];
  const rows = terms.map((term) => ({ id: term.name, party: party(term.name), ...term }));
  return html`<div class="stack" data-stale=${stale || undefined}>
    <${Readout} items=${items} words="64 replies a batch to prompts of 512 tokens, all at their longest, in micro-batches of 8,192 tokens; as taut plan counts, without Python and the libraries." />
    <${StackFigure} terms=${terms} peak=${peak} fullest=${phase.name} shared=${bench.lora && bench.reference} />
    <${Table} label="What is in memory at the peak" columns=${columnsOf(peak)} rows=${rows} />
  </div>`;
}
