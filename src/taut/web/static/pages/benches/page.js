// Five small benches: what goes into the update beside the clip, each with its numbers in the open.
import { html } from "taut/lib/html.js";
import { useUrlState } from "taut/lib/url_state.js";
import { AggregationBench } from "taut/pages/benches/aggregation.js";
import { BaselinesBench } from "taut/pages/benches/baselines.js";
import { GaeBench } from "taut/pages/benches/gae.js";
import { KlBench } from "taut/pages/benches/kl.js";
import { MemoryBench } from "taut/pages/benches/memory.js";
import { Segmented } from "taut/widgets/segmented.js";

const BENCHES = [
  { value: "gae", label: "GAE", Bench: GaeBench },
  { value: "baselines", label: "Group baselines", Bench: BaselinesBench },
  { value: "kl", label: "KL", Bench: KlBench },
  { value: "loss", label: "Loss aggregation", Bench: AggregationBench },
  { value: "memory", label: "Memory", Bench: MemoryBench },
];

export function BenchesPage() {
  const [chosen, choose] = useUrlState("bench", "gae");
  const { value, Bench } = BENCHES.find((bench) => bench.value === chosen) ?? BENCHES[0];
  return html`<div class="page-head"><div><h1>Benches</h1>
      <p class="lead">What the clip is fed and held beside: advantages, the KL, the weight of a token, the memory of it all. Drag anything; the arrow keys drag too.</p></div>
      <${Segmented} label="Bench" hideLabel options=${BENCHES} value=${value} onChange=${choose} /></div>
    <${Bench} key=${value} />`;
}
