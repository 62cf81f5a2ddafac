// One row of the data through training: what was answered to it, step by step.
import { fixed, whole } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { number } from "taut/lib/number.js";
import { Link, runPath } from "taut/lib/router.js";
import { useData } from "taut/lib/use_data.js";
import { Chart } from "taut/widgets/chart.js";

export function PromptPage({ name, prompt }) {
  const { data, error } = useData(`/api${runPath(name, "prompts", prompt)}`);
  const steps = data ? bySteps(data.replies) : [];
  return html`<div class="page-head"><div><p class="small"><${Link} href=${runPath(name)}>${name}</${Link}> › prompts</p><h1>Prompt ${prompt} through training</h1></div></div>
    ${error && html`<p class="panel" role="alert">${error.message}</p>`}
    ${data && html`<pre class="prompt-text mono wrap" tabindex="0" aria-label="Prompt">${data.prompt}</pre>
      ${steps.length > 1 && html`<div class="section"><${Chart} title="Mean reward of its replies" xLabel="step" yLabel="reward" series=${[{ label: "mean reward", x: steps.map(({ step }) => step), y: steps.map(({ mean }) => mean) }]} /></div>`}
      ${steps.map(({ step, replies, mean }) => html`<section key=${step} class="group">
        <h2><${Link} href=${runPath(name, "steps", step)}>Step ${step}</${Link}> <span class="faint small">mean reward ${fixed(mean, 3)} over ${whole(replies.length)}</span></h2>
        <div class="group-replies">${replies.map((row) => html`<article key=${row.reply} class="group-reply">
          <p><strong><${Link} href=${runPath(name, "steps", step, "replies", row.reply)}>${Number.isNaN(number(row.reward)) ? "no reward" : fixed(number(row.reward), 3)}</${Link}></strong> <span class="faint small">${whole(row.length)} tokens${row.finish_reason === "length" ? " · cut" : ""}</span></p>
          <span class="preview">${row.text}</span></article>`)}</div></section>`)}
      <p class="small faint">Only steps whose replies are kept.</p>`}`;
}

function bySteps(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.step, [...(found.get(row.step) ?? []), row]);
  return [...found].map(([step, replies]) => {
    const rewards = replies.map((row) => number(row.reward)).filter((value) => !Number.isNaN(value));
    return { step, replies, mean: rewards.length ? rewards.reduce((sum, value) => sum + value, 0) / rewards.length : NaN };
  });
}
