// The replies of a step: a table that the server filters, sorts and pages, or its groups side by side.
import { useEffect, useState } from "preact/hooks";
import { bytes, fixed, percent, whole } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { useKeys } from "taut/lib/keyboard.js";
import { number } from "taut/lib/number.js";
import { exported, Link, navigate, runPath } from "taut/lib/router.js";
import { useRun } from "taut/lib/stream.js";
import { setUrlState, useUrlState } from "taut/lib/url_state.js";
import { useData } from "taut/lib/use_data.js";
import { Badge } from "taut/widgets/badge.js";
import { SaveMenu } from "taut/widgets/save_menu.js";
import { Segmented } from "taut/widgets/segmented.js";
import { Table } from "taut/widgets/table.js";

const PAGE = 50;
const FILTERS = [["", "all"], ["failed", "failed"], ["cut", "cut"], ["held", "held"]];

export function StepPage({ name, step }) {
  const [view, setView] = useUrlState("view", "table");
  const { step: newest } = useRun(name);
  const states = useData(`/api${runPath(name, "steps")}`, [newest]); // a run that goes on adds steps, and drops some
  return html`<div class="page-head"><div>
      <p class="small crumbs"><${Link} href=${runPath(name)}>${name}</${Link}> › steps</p><h1>Step ${step}</h1></div>
    <div class="row"><${Segmented} label="Show replies as" hideLabel value=${view} onChange=${setView} options=${[{ value: "table", label: "Table" }, { value: "groups", label: "Groups" }]} />
      <${SaveMenu} name=${name} step=${step} /></div></div>
    ${states.data && html`<${Kept} name=${name} step=${Number(step)} states=${states.data} />`}
    <${Replies} name=${name} step=${step} view=${view} kept=${states.data?.kept.includes(Number(step)) ?? true} />`;
}

/** Which steps can be looked at, and what became of the others. */
function Kept({ name, step, states }) {
  const { kept, dropped, superseded } = states;
  const place = kept.indexOf(step);
  const path = (to) => runPath(name, "steps", to);
  const before = kept.filter((other) => other < step).at(-1);
  const after = kept.find((other) => other > step);
  useKeys({
    "[": { does: "the kept step before", run: () => before !== undefined && navigate(path(before)) },
    "]": { does: "the next kept step", run: () => after !== undefined && navigate(path(after)) },
  });
  const near = kept.length > 60 ? kept.filter((other, at) => place < 0 || Math.abs(at - place) <= 20 || at === 0 || at === kept.length - 1) : kept;
  return html`<nav class="section" style=${{ marginTop: 0 }} aria-label="Steps whose replies are kept"><div class="kept">
      ${near.map((other) => html`<${Link} key=${other} href=${path(other)} aria-current=${other === step ? "page" : undefined}>${other}</${Link}>`)}</div>
    <p class="small faint kept-words">${kept.length === 1 ? "1 step has its replies" : `${whole(kept.length)} steps have their replies`}${dropped.length ? `; those of ${whole(dropped.length)} ${dropped.length === 1 ? "other" : "others"} were dropped to save space` : ""}${superseded.length ? `; ${whole(superseded.length)} ${superseded.length === 1 ? "was" : "were"} taken again by a resume, and ${superseded.length === 1 ? "shows" : "show"} what the resume did` : ""}.</p></nav>`;
}

function Replies({ name, step, view, kept }) {
  const [sort, setSort] = useUrlState("sort", view === "groups" ? "group" : "reply");
  const [order, setOrder] = useUrlState("order", "asc");
  const [filter, setFilter] = useUrlState("filter", "");
  const [search, setSearch] = useUrlState("search", "");
  const [offset, setOffset] = useUrlState("offset", 0);
  const page = view === "groups" ? 4 * PAGE : PAGE; // a group is better seen whole
  const query = new URLSearchParams({ sort: view === "groups" ? "group" : sort, order, filter, search, offset, limit: page });
  const { data, error, loading } = useData(`/api${runPath(name, "steps", step)}/replies?${query}`);
  const last = useLast(data);
  const restart = (set) => (value) => {
    setUrlState({ offset: undefined });
    set(value);
  };
  const shown = data ?? last;
  return html`
    ${kept && html`<div class="step-tools">
      <${Typed} label="Search prompts and replies" value=${search} onCommit=${restart(setSearch)} />
      <${Typed} label="Filter, such as reward>=0.5, length<100" value=${filter} onCommit=${restart(setFilter)} />
      <${Segmented} label="Only" value=${FILTERS.some(([value]) => value === filter) ? filter : "-"} onChange=${restart(setFilter)} options=${FILTERS.map(([value, label]) => ({ value, label }))} />
    </div>`}
    ${error && html`<p class="panel" role="alert">${error.message}</p>`}
    ${!shown && loading && html`<p class="muted">Reading replies…</p>`}
    ${shown && !error && html`<div aria-busy=${loading}>
      ${view === "groups" ? html`<${Groups} name=${name} step=${step} rows=${shown.replies} />` : html`<${List} name=${name} step=${step} rows=${shown.replies} surrogate=${shown.constants.surrogate}
        sort=${{ key: sort, order }} onSort=${(next) => { setUrlState({ offset: undefined }); setSort(next.key); setOrder(next.order); }} />`}
      <${Pager} size=${shown.size} matched=${shown.matched} offset=${offset} shown=${shown.replies.length} page=${page} onMove=${setOffset} />
    </div>`}`;
}

/** The newest answer, so that a page does not go blank while the next one is on its way. */
function useLast(data) {
  const [last, setLast] = useState(data);
  useEffect(() => {
    if (data) setLast(data);
  }, [data]);
  return last;
}

/** A text that takes effect with Enter, or as the field is left. */
function Typed({ label, value, onCommit }) {
  const [typed, setTyped] = useState(null);
  const commit = () => {
    if (typed !== null && typed !== value) onCommit(typed);
    setTyped(null);
  };
  return html`<label>${label}<input class="field" type="search" value=${typed ?? value} onInput=${(event) => setTyped(event.currentTarget.value)} onBlur=${commit} onKeyDown=${(event) => event.key === "Enter" && commit()} /></label>`;
}

const optional = (show) => (value) => (number(value) === undefined ? "–" : show(number(value)));
const reward = (row) => (Number.isNaN(number(row.reward)) ? "none" : fixed(number(row.reward), 3));

function List({ name, step, rows, surrogate, sort, onSort }) {
  const columns = [
    { key: "reply", label: "Reply", sortable: true, show: (row) => html`<${Link} href=${runPath(name, "steps", step, "replies", row.reply)}>${row.reply}</${Link}>` },
    { key: "reward", label: "Reward", number: true, sortable: true, show: reward },
    { key: "length", label: "Tokens", number: true, sortable: true, show: (row) => whole(row.length) },
    { key: "clip", label: surrogate === "cispo" ? "Weight-capped share" : "Clipped share", title: "Of its tokens, over the optimiser steps of the batch", number: true, sortable: true, show: (row) => optional(percent)(row["clip/binding"]) },
    { key: "kl", label: "KL to old, k3", title: "k3 over its tokens as last seen: how far the batch moved it, in nats a token", number: true, sortable: true, show: (row) => optional((value) => fixed(value, 4))(row["kl/old_k3"]) },
    { key: "kl_ref", label: "KL to reference, k3", title: "k3 before the batch, in nats a token", number: true, sortable: true, show: (row) => optional((value) => fixed(value, 4))(row["kl/ref_k3"]) },
    { key: "failures", label: "Failures", sortable: true, show: (row) => html`<${Marks} row=${row} />` },
    { key: "prompt", label: "Prompt", show: (row) => html`<span class="preview" style=${{ minWidth: "8rem" }}>${row.prompt}</span>` },
    { key: "text", label: "Text", show: (row) => html`<${Text} name=${name} row=${row} />` },
  ];
  if (matchMedia("(max-width: 720px)").matches) columns.splice(1, 0, ...columns.splice(-2).reverse()); // what was said, before numbers that are out of sight
  return html`<${Table} label="Replies" columns=${columns} rows=${rows.map((row) => ({ ...row, id: row.reply }))} sort=${sort} onSort=${onSort} empty="No reply matches." />`;
}

function Marks({ row }) {
  const failures = Object.entries(row.failures);
  return html`${failures.map(([term, why]) => html`<${Badge} tone="bad" title=${why}>${term.slice(0, 40)}</${Badge}>`)}${row.finish_reason === "length" && html`<${Badge} tone="warn">cut</${Badge}>`}`;
}

function Text({ name, row }) {
  const long = row.text_bytes > new TextEncoder().encode(row.text).length;
  return html`<span class="preview">${row.text}${long ? "…" : ""}</span>${row.text_bytes > 20000 && !exported && html`<a class="small" href=${`/api${runPath(name, "steps", row.step, "replies", row.reply)}/text`} download>save ${bytes(row.text_bytes)}</a>`}`;
}

/** The replies to one prompt beside each other, against their own mean. */
function Groups({ name, step, rows }) {
  const groups = new Map();
  for (const row of rows) groups.set(row.group, [...(groups.get(row.group) ?? []), row]);
  if (!rows.length) return html`<p class="muted">No reply matches.</p>`;
  return html`${[...groups].map(([group, members]) => html`<section key=${group} class="group">
    <p class="group-prompt mono wrap">${members[0].prompt}</p>
    <p class="small muted">${spread(members)} <${Link} href=${runPath(name, "prompts", members[0].prompt_index)}>This prompt through training</${Link}></p>
    <div class="group-replies">${members.map((row) => html`<article key=${row.reply} class="group-reply">
      <p><strong><${Link} href=${runPath(name, "steps", step, "replies", row.reply)}>${reward(row)}</${Link}></strong> <span class="faint small">reply ${row.reply} · ${whole(row.length)} tokens · ${optional(percent)(row["clip/binding"])} clipped</span></p>
      <${Text} name=${name} row=${row} /><${Marks} row=${row} /></article>`)}</div></section>`)}`;
}

function spread(members) {
  const rewards = members.map((row) => number(row.reward)).filter((value) => !Number.isNaN(value));
  if (!rewards.length) return "No reply has a reward.";
  const mean = rewards.reduce((sum, value) => sum + value, 0) / rewards.length;
  const equal = rewards.length > 1 && Math.max(...rewards) === Math.min(...rewards);
  return `Mean reward ${fixed(mean, 3)} over ${rewards.length}${equal ? ", all equal: against the group none stands out" : ""}.`;
}

function Pager({ size, matched, offset, shown, page, onMove }) {
  return html`<div class="row section" style=${{ marginTop: "1rem" }}><span class="small muted" role="status">${matched ? `${whole(offset + 1)}–${whole(offset + shown)} of ${whole(matched)}` : "0"}${matched !== size ? ` that match, of ${whole(size)}` : ""}</span>
    ${matched > page && html`<button class="button small" disabled=${offset === 0} onClick=${() => onMove(Math.max(0, offset - page))}>Back</button>
    <button class="button small" disabled=${offset + page >= matched} onClick=${() => onMove(offset + page)}>On</button>`}</div>`;
}
