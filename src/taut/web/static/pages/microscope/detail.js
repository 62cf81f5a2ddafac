// All numbers of one token.
import { fixed, short, signed, whole } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { klEstimates } from "taut/maths/microscope.js";
import { kindOf } from "taut/pages/microscope/field.js";
import { drawn, MARKS, stateWords } from "taut/pages/microscope/paint.js";
import { numbersOf, replyOf } from "taut/pages/microscope/state.js";
import { stepWords } from "taut/pages/microscope/scrubber.js";

const KINDS = {
  told: "told by the environment: not sampled, not trained on",
  untrained: "not trained on: its reply has no reward",
};

/** [[heading, [[label, text], ...]], ...]; what the run lacks is left out. */
export function detailRows(batch, moment, token) {
  const found = numbersOf(batch, moment, token);
  const { surrogate } = moment.constants;
  const row = (label, name, show) => (found[name] === undefined ? [] : [[label, show(found[name])]]);
  const missing = batch.columns.mask[token] && moment.seenAt[replyOf(batch, token)] >= 0 ? "NaN" : "–";
  const logprob = (value) => (Number.isNaN(value) ? missing : `${fixed(value, 4)} (p ${short(Math.exp(value))})`);
  const number = (value) => (Number.isNaN(value) ? missing : signed(value, 4));
  const state = MARKS[found.clip] ? `${MARKS[found.clip].sign} ${stateWords(found.clip, surrogate)}` : stateWords(found.clip, surrogate);
  const clip = found.clip === undefined || Number.isNaN(found.ratio) ? [] : [["clip", state]];
  return [
    ["The policy", [
      ...row("ratio ρ", "ratio", (value) => (Number.isNaN(value) ? missing : fixed(value, 4))),
      ...clip,
      ...row("log π as seen", "seen_logprob", logprob),
      ...row("log π before the batch", "old_logprobs", logprob),
      ...row("log π of the sampler", "behavior_logprobs", logprob),
      ...row("sampler–learner gap", "gap", (value) => (Number.isNaN(value) ? missing : short(value, 2))),
      ...row("entropy", "entropy", number),
    ]],
    ["The credit", [
      ...row("advantage A", "advantage", number),
      ...row("token reward", "reward", number),
      ...row("value V", "value", number),
      ...row("TD error δ", "td", number),
      ...row("return", "return", number),
    ]],
    ["The reference", [...row("log π of the reference", "ref_logprobs", logprob), ...klRows(batch, moment, token)]],
  ].filter(([, rows]) => rows.length);
}

function klRows(batch, moment, token) {
  const { ref_logprobs: ref, old_logprobs: old, mask } = batch.columns;
  if (!ref || !old || !mask[token]) return [];
  const seen = Number.isNaN(moment.logprobs[token]) ? old[token] : moment.logprobs[token];
  const kl = klEstimates([seen], [ref[token]], [1]);
  return ["k1", "k2", "k3"].map((name) => [`KL, ${name}`, signed(kl[name][0], 4)]);
}

export function Detail({ batch, moment, token, chosen }) {
  if (token === null) {
    return html`<section class="panel detail"><h2>Token</h2><p class="muted small">Point at a token, or press one. With the keyboard: Tab to the text, then arrows; <kbd>n</kbd> and <kbd>b</kbd> go to the next and the last held token.</p></section>`;
  }
  const reply = batch.replies[replyOf(batch, token)];
  const seen = moment.seenAt[replyOf(batch, token)];
  const kind = kindOf(batch, token);
  const when = seen < 0 ? "not seen yet" : seen < moment.at ? `last seen in ${stepWords(batch.optimizer_steps, seen)}` : "seen in this optimiser step";
  return html`<section class="panel detail" data-testid="detail">
    <h2>Token ${token - reply.start + 1} of ${whole(reply.length)}${batch.replies.length > 1 ? html` <span class="faint small">of reply ${reply.reply}</span>` : ""}</h2>
    <p><span class="detail-text mono wrap">${drawn(batch.pieces[batch.columns.ids[token]])}</span> <span class="faint small">id ${batch.columns.ids[token]}${chosen === token ? " · chosen" : ""}</span></p>
    ${kind && html`<p class="small warn">${KINDS[kind]}</p>`}
    ${batch.optimizer_steps.length > 0 && html`<p class="small muted">${when}</p>`}
    ${detailRows(batch, moment, token).map(([heading, rows]) => html`<h3>${heading}</h3><dl>${rows.map(([label, text]) => html`<div><dt>${label}</dt><dd>${text}</dd></div>`)}</dl>`)}
  </section>`;
}
