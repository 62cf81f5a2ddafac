// The step taken once more from its checkpoint: whether every number comes out as it was stored.
import { short, whole } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { number } from "taut/lib/number.js";
import { useReplay } from "taut/pages/microscope/what_if_data.js";

export function Replay({ name, step, described }) {
  const [{ waiting, found, error }, start] = useReplay(name, step);
  const why = described.not_replayed;
  return html`<section class="replay"><h3>Once more</h3>
    <p class="small muted">Takes step ${step} again from the checkpoint before it, on the recorded replies, and compares every number to the last bit.</p>
    ${why ? html`<p class="small">Not this step: ${why}.</p>` : html`<p><button class="button small" disabled=${!!waiting} onClick=${start}>${waiting ? "Replaying…" : "Replay this step"}</button></p>`}
    <div role="status">${error && html`<p class="small">${error.message}</p>`}${found && html`<${Verdict} found=${found} />`}</div></section>`;
}

function Verdict({ found }) {
  const from = found.start ? `from the checkpoint of step ${found.start}` : "from the start of the run";
  if (found.equal) return html`<p class="small"><strong>Bit for bit.</strong> Every number of the step is the stored one, ${from}.</p>`;
  return html`<p class="small"><strong>${whole(found.different)} quantities came out otherwise</strong>, ${from}.${found.changes_of_machine ? ` That may be since ${found.changes_of_machine}.` : ""}</p>
    <ul class="small">${found.differences.map(({ place, quantity, stored, replayed }) => html`<li class="wrap">${place}: ${quantity} was ${short(number(stored), 6)}, came out as ${short(number(replayed), 6)}</li>`)}</ul>`;
}
