// The microscope: one reply, or all of its batch, token by token and optimiser step by optimiser step.
import { useEffect, useMemo, useState } from "preact/hooks";
import { getBinary } from "taut/lib/api.js";
import { bytes, fixed, percent, whole } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { useKeys } from "taut/lib/keyboard.js";
import { currentQuery, exported, Link, navigate, runPath } from "taut/lib/router.js";
import { useUrlState } from "taut/lib/url_state.js";
import { isHeld } from "taut/maths/microscope.js";
import { readTokens } from "taut/maths/token_batch.js";
import { Detail } from "taut/pages/microscope/detail.js";
import { TokenField } from "taut/pages/microscope/field.js";
import { Anatomy, Histogram, reachOf, Track } from "taut/pages/microscope/figures.js";
import { Legend } from "taut/pages/microscope/legend.js";
import { drawn, heldWords, stateWords } from "taut/pages/microscope/paint.js";
import { Scrubber, stepWords } from "taut/pages/microscope/scrubber.js";
import { availableQuantities, momentOf, replyOf, valuesOf } from "taut/pages/microscope/state.js";
import { WhatIf } from "taut/pages/microscope/what_if.js";
import { Say } from "taut/widgets/readout.js";
import { Segmented } from "taut/widgets/segmented.js";
import { Select } from "taut/widgets/select.js";
import { Toggle } from "taut/widgets/toggle.js";

/** {batch, error} of some tokens of a step; the path of the API says which. */
export function useTokens(path) {
  const [state, setState] = useState({});
  useEffect(() => {
    const control = new AbortController();
    setState({});
    getBinary(path, { signal: control.signal }).then(
      (buffer) => setState({ batch: readTokens(buffer) }),
      (error) => error.name !== "AbortError" && setState({ error }),
    );
    return () => control.abort();
  }, [path]);
  return state;
}

export function ReplyPage({ name, step, reply }) {
  const [scope, setScope] = useUrlState("scope", "reply");
  const replies = scope === "batch" ? "" : `?replies=${encodeURIComponent(reply)}`;
  const { batch, error } = useTokens(`/api${runPath(name, "steps", step)}/tokens${replies}`);
  return html`<div class="page-head"><div>
      <p class="small crumbs"><${Link} href=${runPath(name)}>${name}</${Link}> › <${Link} href=${runPath(name, "steps", step)}>step ${step}</${Link}></p>
      <h1>${scope === "batch" ? `The batch of step ${step}` : `Reply ${reply}`}</h1></div>
    <div class="row"><${Segmented} label="Show" hideLabel value=${scope} onChange=${setScope} options=${[{ value: "reply", label: "This reply" }, { value: "batch", label: "Whole batch" }]} /></div></div>
    ${error && html`<p class="panel" role="alert">${error.message}</p>`}
    ${!batch && !error && html`<p class="muted">Reading tokens…</p>`}
    ${batch && html`<${Microscope} key=${scope} name=${name} batch=${batch} scope=${scope} />`}`;
}

/** `batch` as of maths/token_batch.js. All state is in the URL, but for the token that is pointed at. */
export function Microscope({ name, batch, scope }) {
  const steps = batch.optimizer_steps;
  const quantities = availableQuantities(batch);
  const [color, setColor] = useUrlState("color", quantities[0]?.name ?? "");
  const [at, setAt] = useUrlState("at", Math.max(0, steps.length - 1));
  const [numbers, setNumbers] = useUrlState("numbers", batch.tokens <= 400);
  const [token, setToken] = useUrlState("token", -1);
  const [hovered, setHovered] = useState(null);
  const [overlay, setOverlay] = useState(undefined); // as of state.js: what a what-if panel puts in place of what was stored
  const now = Math.min(Math.max(0, at), Math.max(0, steps.length - 1));
  const chosen = token >= 0 && token < batch.tokens ? token : null;
  const spec = quantities.find((one) => one.name === color) ?? quantities[0];
  const moment = useMemo(() => momentOf(batch, now, overlay), [batch, now, overlay]);
  const values = useMemo(() => (spec ? valuesOf(batch, moment, spec.name) : new Float32Array(batch.tokens).fill(NaN)), [batch, moment, spec]);
  const reach = useMemo(() => reachOf(batch), [batch]);
  const shown = hovered ?? chosen;
  const nextHeld = (way) => {
    for (let away = 1; away <= batch.tokens; away += 1) {
      const place = (((chosen ?? (way > 0 ? -1 : 0)) + way * away) % batch.tokens + batch.tokens) % batch.tokens;
      if (isHeld(moment.states[place])) return setToken(place);
    }
    return undefined;
  };
  useKeys({
    n: { does: "the next token that is held", run: () => nextHeld(1) },
    b: { does: "the last token that is held", run: () => nextHeld(-1) },
    c: { does: "the next quantity to colour by", run: () => setColor(quantities[(quantities.indexOf(spec) + 1) % quantities.length].name) },
    v: { does: "numbers beneath the tokens, or not", run: () => setNumbers(!numbers) },
  });
  if (!spec) return html`<p class="panel">This step was stored without logprobs, so there is nothing to colour its tokens by.</p>`;
  return html`
    ${scope === "reply" ? html`<${Facts} batch=${batch} name=${name} />` : html`<${LeftOut} batch=${batch} />`}
    <${WhatIf} name=${name} batch=${batch} onOverlay=${setOverlay} />
    <div class="microscope">
      <div class="microscope-bar panel">
        <div class="row"><${Select} label="Colour by" value=${spec.name} onChange=${setColor} options=${quantities.map(({ name: value, label }) => ({ value, label }))} />
          <${Toggle} label="Numbers beneath" value=${numbers} onChange=${setNumbers} /></div>
        ${steps.length ? html`<${Scrubber} steps=${steps} at=${now} onMove=${setAt} />` : html`<p class="small muted">No optimiser step of this batch was stored.</p>`}
        <${Legend} batch=${batch} moment=${moment} values=${values} spec=${spec} />
        <${Sentence} batch=${batch} moment=${moment} />
      </div>
      <${TokenField} batch=${batch} moment=${moment} values=${values} spec=${spec} numbers=${numbers} chosen=${chosen} onHover=${setHovered} onChoose=${(next) => setToken(next ?? -1)}
        label=${`Tokens, coloured by ${spec.label}; arrow keys move through them`} above=${(_, number) => html`<${Prompt} batch=${batch} number=${number} scope=${scope} />`} head=${(reply, number) => html`<${ReplyHead} name=${name} batch=${batch} moment=${moment} number=${number} scope=${scope} />`} />
      <aside class="microscope-side" aria-label="Numbers beside the tokens">
        <${Detail} batch=${batch} moment=${moment} token=${shown} chosen=${chosen} />
        <${Track} batch=${batch} moment=${moment} token=${shown} overlay=${overlay} />
        <${Anatomy} moment=${moment} />
        <${Histogram} moment=${moment} reach=${reach} />
      </aside>
    </div>
    <${Say} text=${chosen === null ? "" : spoken(batch, moment, chosen, spec, values)} />`;
}

function spoken(batch, moment, token, spec, values) {
  const state = Number.isNaN(moment.ratio[token]) ? "" : `, ${stateWords(moment.states[token], moment.constants.surrogate)}`;
  const value = spec.scale === "clip" ? "" : `, ${spec.label} ${fixed(values[token], 3)}`;
  return `Token ${token - batch.replies[replyOf(batch, token)].start + 1}: ${drawn(batch.pieces[batch.columns.ids[token]])}${value}${state}`;
}

/** What the scrubber's place comes to, in words. */
function Sentence({ batch, moment }) {
  const held = moment.states.reduce((count, state) => count + isHeld(state), 0);
  const seen = moment.ratio.reduce((count, ratio) => count + !Number.isNaN(ratio), 0);
  const stale = batch.replies.filter((_, number) => moment.seenAt[number] >= 0 && moment.seenAt[number] < moment.at).length;
  const unseen = batch.replies.filter((_, number) => moment.seenAt[number] < 0).length;
  const one = batch.replies.length === 1;
  const replies = (count, was, were) => (count ? ` ${one ? `The reply was ${was}` : `${count} of ${batch.replies.length} replies were ${were}`}.` : "");
  return html`<p class="small" data-testid="sentence"><strong>${whole(held)}</strong> of ${whole(seen)} tokens ${heldWords(moment.constants.surrogate)} (${seen ? percent(held / seen) : "–"}).
    ${replies(stale, "not in this minibatch: its last values stand, drawn pale", "not in this minibatch: their last values stand, drawn pale")}${replies(unseen, "not seen yet", "not seen yet")}</p>`;
}

function ReplyHead({ name, batch, moment, number, scope }) {
  const reply = batch.replies[number];
  const seen = moment.seenAt[number];
  const stale = seen < 0 ? "not seen yet" : seen < moment.at ? `as of ${stepWords(batch.optimizer_steps, seen)}` : "";
  if (scope === "reply") return html`<p class="reply-head small">${stale && html`<span class="stale">${stale}</span>`}</p>`;
  return html`<p class="reply-head small"><${Link} href=${`${runPath(name, "steps", batch.step, "replies", reply.reply)}`}>reply ${reply.reply}</${Link}>
    <span>${Number.isNaN(reply.reward) ? "no reward" : `reward ${fixed(reply.reward, 3)}`}</span>${reply.finish_reason === "length" && html`<span>cut</span>`}${stale && html`<span class="stale">${stale}</span>`}</p>`;
}

/** In a batch, the prompt of a group before its first reply. */
function Prompt({ batch, number, scope }) {
  const { group, prompt } = batch.replies[number];
  if (scope === "reply" || batch.replies[number - 1]?.group === group) return null;
  return html`<p class="reply-prompt mono wrap">${prompt}</p>`;
}

function LeftOut({ batch }) {
  if (!batch.left_out.length) return null;
  return html`<p class="panel small">The first ${whole(batch.replies.length)} of ${whole(batch.replies.length + batch.left_out.length)} replies are drawn, ${whole(batch.tokens)} tokens. The others open one by one.</p>`;
}

/** The prompt, what the reward is made of, why it ended. */
function Facts({ batch, name }) {
  const [reply] = batch.replies;
  const path = (to) => runPath(name, "steps", batch.step, "replies", to);
  const go = (to) => {
    if (to < 0 || to >= batch.size) return;
    const query = currentQuery();
    query.delete("token");
    navigate(query.size ? `${path(to)}?${query}` : path(to));
  };
  useKeys({
    ",": { does: "the reply before", run: () => go(reply.reply - 1) },
    ".": { does: "the next reply", run: () => go(reply.reply + 1) },
  });
  return html`<section class="facts">
    <div><h2 class="visually-hidden">Prompt</h2><pre class="prompt-text mono wrap" tabindex="0" aria-label="Prompt">${reply.prompt}</pre>
      ${reply.prompt_bytes > 20000 && html`<p class="small faint">The end of ${bytes(reply.prompt_bytes)}.</p>`}</div>
    <dl class="facts-list">
      <div><dt>reward</dt><dd>${Number.isNaN(reply.reward) ? "none" : fixed(reply.reward, 4)}</dd></div>
      ${Object.entries(reply.terms).map(([term, value]) => html`<div><dt class="wrap">${term}</dt><dd>${fixed(value, 4)}</dd></div>`)}
      <div><dt>ended</dt><dd>${reply.finish_reason === "length" ? "cut by a limit" : "of itself"}</dd></div>
      <div><dt>tokens</dt><dd>${whole(reply.length)}</dd></div>
      <div><dt>prompt</dt><dd><${Link} href=${runPath(name, "prompts", reply.prompt_index)}>through training</${Link}></dd></div>
      ${!exported && html`<div><dt>text</dt><dd><a href=${`/api${path(reply.reply)}/text`} download>save</a></dd></div>`}
    </dl>
    ${Object.entries(reply.failures).map(([term, why]) => html`<p class="failure wrap"><strong>${term}</strong> failed: ${why}</p>`)}
  </section>`;
}
