// Tokens as text, coloured. A reply may have tens of thousands: each is a span made once, and to colour it anew changes
// its class. They stand in blocks that the browser lays out as they come into view.
import { useLayoutEffect, useRef } from "preact/hooks";
import { html } from "taut/lib/html.js";
import { beneath, binClass, drawn, MARKS, scaleOf } from "taut/pages/microscope/paint.js";
import { FREED, NEWLY_HELD } from "taut/pages/microscope/state.js";

const MOVED = { [NEWLY_HELD]: "newly-held", [FREED]: "freed" };
const BLOCK = 600; // tokens in a block without a line break

/** What kind of token: trained on, told by an environment, or of a reply that takes no part. */
export function kindOf(batch, token) {
  if (batch.columns.mask[token]) return "";
  const { behavior_logprobs: drawnAt } = batch.columns;
  return drawnAt && Number.isNaN(drawnAt[token]) ? "told" : "untrained";
}

/** Blocks of spans, [{element, spans, near, look}]. Text nodes only: whatever the model wrote, it is never markup. */
function build(box, batch, reply) {
  const blocks = [];
  const all = document.createDocumentFragment();
  const special = new Set(batch.special);
  let block = null;
  let before = "";
  for (let token = reply.start; token < reply.start + reply.length; token += 1) {
    if (!block) {
      block = { element: all.appendChild(document.createElement("div")), spans: [], near: blocks.length < 2, look: null };
      block.element.className = "block";
      block.element.block = block;
      blocks.push(block);
    }
    const id = batch.columns.ids[token];
    const text = batch.pieces[id];
    const kind = kindOf(batch, token);
    const span = document.createElement("span");
    span.token = token;
    span.fixed = ["t", kind, special.has(id) && "special", kind === "told" && before !== "told" && "first"].filter(Boolean).join(" ");
    span.className = span.fixed;
    span.trained = kind === "";
    span.textContent = drawn(text);
    block.element.append(span);
    block.spans.push(span);
    before = kind;
    if (block.spans.length >= BLOCK || (text.endsWith("\n") && block.spans.length > 20)) block = null;
  }
  for (const { element, spans } of blocks) element.style.setProperty("--tokens", spans.length); // its height, before it is laid out
  box.replaceChildren(all);
  return blocks;
}

function paint(block) {
  const { values, states, moved, spec, scale, numbers } = block.look;
  const names = new Map();
  for (const span of block.spans) {
    const { token } = span;
    const bin = scale.bin(values[token]);
    const broken = span.trained && block.seen && Number.isNaN(values[token]); // a number that is none, where there is one
    const key = `${bin},${states[token]},${broken},${moved?.[token]}`;
    if (!names.has(key)) {
      const parts = [binClass(bin, spec), MARKS[states[token]]?.name, broken && "nan", MOVED[moved?.[token]]];
      names.set(key, parts.filter(Boolean).map((part) => ` ${part}`).join(""));
    }
    const name = span.fixed + names.get(key);
    if (span.painted !== name) {
      span.className = name;
      span.painted = name;
    }
    if (numbers) span.dataset.n = beneath(values[token], states[token], spec) || (broken ? "NaN" : "·");
  }
  block.painted = block.look;
}

/** Blocks far from what is seen are painted as they come near. */
function watch(blocks) {
  const watcher = new IntersectionObserver((entries) => {
    for (const { target: { block }, isIntersecting } of entries) {
      block.near = isIntersecting;
      if (block.near && block.painted !== block.look) paint(block);
    }
  }, { rootMargin: "1000px" });
  for (const { element } of blocks) watcher.observe(element);
  return () => watcher.disconnect();
}

function ReplyTokens({ batch, reply, look, seen, chosen, spansOf }) {
  const box = useRef();
  const blocks = useRef([]);
  useLayoutEffect(() => {
    blocks.current = build(box.current, batch, reply);
    spansOf.set(reply.reply, blocks.current.flatMap(({ spans }) => spans));
    return watch(blocks.current);
  }, [batch, reply]);
  useLayoutEffect(() => {
    for (const block of blocks.current) {
      Object.assign(block, { look, seen });
      if (block.near) paint(block);
    }
  }, [batch, reply, look, seen]);
  useLayoutEffect(() => {
    const span = chosen === null ? undefined : spansOf.get(reply.reply)[chosen - reply.start];
    if (!span) return undefined;
    span.dataset.on = "";
    span.scrollIntoView({ block: "nearest" });
    return () => delete span.dataset.on;
  }, [batch, reply, chosen]);
  return html`<div class="tokens" ref=${box}></div>`;
}

/** The token above or beneath, where the lines are laid out as they are: nearest to it across. */
function vertical(spans, from, way) {
  const here = spans[from].getBoundingClientRect();
  const middle = (here.left + here.right) / 2;
  let line = null;
  let best = from;
  let away = Infinity;
  for (let at = from + way; at >= 0 && at < spans.length; at += way) {
    const place = spans[at].getBoundingClientRect();
    if (way * (place.top - here.top) < here.height / 2) continue;
    if (line !== null && Math.abs(place.top - line) > here.height / 2) break;
    line = place.top;
    const distance = Math.abs((place.left + place.right) / 2 - middle);
    if (distance < away) [best, away] = [at, distance];
  }
  return best;
}

/** Columns that a group fills to the end, at most `most`; where none does, `most`. */
function columns(size, most) {
  for (let count = most; count > most / 2; count -= 1) if (size % count === 0) return count;
  return most;
}

const SHORT = 24; // tokens; replies of at most so many stand beside each other

/**
 * `above(reply, number)` stands before a reply, and `head` at its top. `onHover(token or null)`, `onChoose(token or null)`.
 * Arrow keys move the chosen token once the field has the focus.
 */
export function TokenField({ batch, moment, values, spec, numbers, chosen, onHover, onChoose, above, head, label }) {
  const spansOf = useRef(new Map()).current;
  const short = batch.replies.length > 1 && batch.replies.every(({ length }) => length <= SHORT);
  const size = batch.replies.filter(({ group }) => group === batch.replies[0].group).length;
  const look = useLook({ batch, moment, values, spec, numbers });
  const token = (event) => event.target.token ?? null;
  const key = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const spans = batch.replies.flatMap((reply) => spansOf.get(reply.reply) ?? []);
    const ways = {
      ArrowLeft: (at) => at - 1, ArrowRight: (at) => at + 1, Home: () => 0, End: () => spans.length - 1,
      ArrowUp: (at) => vertical(spans, at, -1), ArrowDown: (at) => vertical(spans, at, 1),
    };
    if (event.key === "Escape") onChoose(null);
    if (!ways[event.key] || !spans.length) return;
    event.preventDefault();
    const next = chosen === null ? 0 : ways[event.key](chosen);
    onChoose(Math.min(spans.length - 1, Math.max(0, next)));
  };
  return html`<div class=${`field-of-tokens scale-${spec.scale} ${numbers ? "numbers" : ""} ${short ? "short" : ""}`} tabindex="0" role="group" data-keys aria-label=${label} style=${short ? { "--wide": columns(size, 8), "--middle": columns(size, 4), "--narrow": 2 } : undefined}
    onMouseOver=${(event) => onHover(token(event))} onMouseLeave=${() => onHover(null)} onClick=${(event) => token(event) !== null && onChoose(token(event))} onKeyDown=${key}>
    ${batch.replies.map((reply, number) => html`${above(reply, number)}<section key=${reply.reply} class="reply-block" data-stale=${moment.seenAt[number] < moment.at || undefined}>
      ${head(reply, number)}<${ReplyTokens} batch=${batch} reply=${reply} look=${look} seen=${moment.seenAt[number] >= 0} chosen=${chosen} spansOf=${spansOf} /></section>`)}
  </div>`;
}

/** The same object for as long as nothing that is painted has changed: hovering paints nothing anew. */
function useLook({ batch, moment, values, spec, numbers }) {
  const last = useRef(null);
  const now = [batch, moment, values, spec, numbers];
  if (!last.current || now.some((value, place) => value !== last.current.of[place])) {
    const scale = scaleOf(values, spec, moment.constants);
    last.current = { of: now, values, states: moment.states, moved: moment.moved, spec, scale, numbers };
  }
  return last.current;
}
