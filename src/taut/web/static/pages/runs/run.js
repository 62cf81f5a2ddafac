// One run: how it stands, its charts, checks, steps, events and settings, while it goes on.
import { useState } from "preact/hooks";
import { post } from "taut/lib/api.js";
import { ago, duration, fixed, percent, whole } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { Link, exported, runPath } from "taut/lib/router.js";
import { newest } from "taut/lib/run_log.js";
import { useConnected, useRun, useRunList } from "taut/lib/stream.js";
import { useData } from "taut/lib/use_data.js";
import { Charts } from "taut/pages/runs/charts.js";
import { Checks } from "taut/pages/runs/checks.js";
import { Config, written } from "taut/pages/runs/config.js";
import { Events } from "taut/pages/runs/events.js";
import { family } from "taut/pages/runs/forks.js";
import { comparePath } from "taut/pages/runs/list.js";
import { Status, useNow } from "taut/pages/runs/status.js";
import { TimeSplit } from "taut/pages/runs/time_split.js";
import { Badge } from "taut/widgets/badge.js";
import { Readout } from "taut/widgets/readout.js";
import { SaveMenu } from "taut/widgets/save_menu.js";

const LAST = 5;
const CHIPS = 24;

/** Mean of the newest values of a metric; undefined where it was never measured. */
function recent(run, metric, count = LAST) {
  const values = run.scalars.get(metric)?.y.slice(-count);
  return values?.length ? values.reduce((sum, value) => sum + value, 0) / values.length : undefined;
}

function Stop({ name }) {
  const [said, setSaid] = useState("");
  const stop = () => {
    setSaid("Asking it to stop…");
    post(`/api/training/${encodeURIComponent(name)}/stop`, {}).then(({ done }) => setSaid(done), (error) => setSaid(error.message));
  };
  return html`<span class="row"><button class="button danger small" onClick=${stop} disabled=${said.startsWith("Asking")}>Stop</button><span class="small muted" role="status">${said}</span></span>`;
}

function Head({ name, run, about, kin }) {
  const now = useNow(5);
  const steps = about?.config["run.steps"];
  const seconds = recent(run, "time/step");
  const left = run.status === "running" && steps > run.step && seconds ? `, about ${duration((steps - run.step) * seconds)} left` : "";
  const where = run.step === undefined ? "before its first step" : `step ${whole(run.step)}${steps ? ` of ${whole(steps)}` : ""}${left}`;
  const parent = about?.facts.parent;
  return html`<div class="page-head"><div><p class="faint small crumbs"><${Link} href="/runs">Runs</${Link}></p><h1 class="wrap">${name}</h1>
    <p class="row lead"><${Status} status=${run.status} heartbeat=${run.heartbeat} /><span>${where}</span>${run.created && html`<span class="faint">started ${ago(run.created, now)}</span>`}
    ${about?.facts.fault && html`<${Badge} tone="bad" title="A fault was put into this run on purpose, in the workshop.">fault: ${String(about.facts.fault)}</${Badge}>`}
    ${parent && html`<span class="faint">forked from <${Link} href=${runPath(parent)}>${parent}</${Link}>, step ${about.facts.parent_step}</span>`}</p></div>
    <div class="row">${run.status === "running" && !exported && html`<${Stop} name=${name} />`}
      <${SaveMenu} name=${name} />
      ${kin.length > 1 && html`<${Link} class="button small" href=${comparePath(kin.map((row) => row.run))}>Compare with its ${kin.length === 2 ? "relative" : `${kin.length - 1} relatives`}</${Link}>`}</div></div>`;
}

function Numbers({ run, about }) {
  const items = [
    { label: "reward", value: fixed(recent(run, "reward/mean"), 3), note: `mean of ${LAST} steps` },
    { label: "held-out accuracy", value: fixed(newest(run, "eval/accuracy"), 3), note: "last measured" },
    { label: "clipped share", value: percent(recent(run, "clip/binding", Infinity)), note: [`mean of all ${whole(run.scalars.get("clip/binding")?.y.length)} steps`, about?.gauge].filter(Boolean).join("; ") },
    { label: "entropy", value: fixed(recent(run, "entropy"), 3), note: "nats a token" },
    { label: "KL from old", value: fixed(recent(run, "kl/old_k1"), 4), note: "nats a token" },
    { label: "tokens a second", value: whole(recent(run, "rate/tokens")), note: `mean of ${LAST} steps` },
  ].filter(({ value }) => value !== "–");
  // Read aloud every tenth step: a run that goes on would never stop talking.
  return items.length ? html`<${Readout} items=${items} say=${`${run.name} ${run.status}, step ${Math.floor((run.step ?? 0) / 10) * 10}`} />` : null;
}

function Steps({ name, kept }) {
  if (!kept?.length) return html`<p class="muted">${exported ? "This file is of the run alone, without the replies of a step." : "No step's replies are kept."}</p>`;
  const chips = (steps) => html`<ul class="chips">${steps.map((step) => html`<li key=${step}><${Link} class="chip" href=${runPath(name, "steps", step)}>${step}</${Link}></li>`)}</ul>`;
  const backwards = [...kept].reverse();
  return html`<p class="muted small">Replies and each token's way through the optimiser steps, of the steps whose batches are kept:</p>${chips(backwards.slice(0, CHIPS))}
    ${kept.length > CHIPS && html`<details><summary>${kept.length - CHIPS} older</summary>${chips(backwards.slice(CHIPS))}</details>`}`;
}

function Facts({ facts }) {
  const rows = Object.entries(facts).filter(([, value]) => value !== null);
  return html`<dl class="facts">${rows.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd class="mono wrap">${written(value)}</dd></div>`)}</dl>`;
}

function Section({ title, children }) {
  return html`<section class="section" aria-label=${title}><h2>${title}</h2>${children}</section>`;
}

export function RunPage({ name }) {
  const run = useRun(name);
  const connected = useConnected();
  const kin = family(useRunList().rows, name);
  const there = !["loading", "gone", "unreadable"].includes(run.status);
  // Kept steps and the gauge change as it goes on: asked for anew now and then.
  const { data: about, error } = useData(there ? runPath(name).replace("/runs", "/api/runs") : null, [run.status, run.step]);
  if (run.status === "gone") return html`<h1 class="wrap">${name}</h1><p class="lead">There is no run of this name. It shows here as soon as there is. <${Link} href="/runs">All runs</${Link}></p>`;
  if (run.status === "loading") return html`<h1 class="wrap">${name}</h1><p class="lead" role="status">${connected ? "Reading the run…" : "The server doesn't answer; trying again."}</p>`;
  if (run.status === "unreadable") return html`<h1 class="wrap">${name}</h1><p class="panel bad" role="alert">${run.error}</p>`;
  return html`<${Head} ...${{ name, run, about, kin }} />
    ${!connected && html`<p class="panel warn" role="alert">The server doesn't answer; trying again. What stands here is from before.</p>`}
    ${error && html`<p class="panel bad" role="alert">${error.message}</p>`}
    <${Numbers} run=${run} about=${about} />
    <${Section} title="Checks"><${Checks} events=${run.events} /></${Section}>
    <${Section} title="Steps"><${Steps} name=${name} kept=${about?.kept_steps} /></${Section}>
    <${Section} title="Charts"><${Charts} runs=${[run]} judged=${about?.judged} /></${Section}>
    <${Section} title="Time"><${TimeSplit} scalars=${run.scalars} /></${Section}>
    <${Section} title="Events"><${Events} events=${run.events} /></${Section}>
    ${about && html`<${Section} title="Settings"><${Config} config=${about.config} defaults=${about.defaults} /></${Section}><${Section} title="Machine"><${Facts} facts=${about.facts} /></${Section}>`}`;
}
