// What this is, and two doors.
import { html } from "taut/lib/html.js";
import { Link } from "taut/lib/router.js";
import { useRecentRuns } from "taut/pages/start/recent.js";
import { Leash } from "taut/pages/start/leash.js";

const LEARN = [
  ["/clip", "The clip", "One token, its ratio and its advantage: push it by real gradient steps until the leash is taut."],
  ["/workshop", "The workshop", "Run PPO on a small model, live, in seconds. Then break it on purpose and see which check tells."],
  ["/benches", "The benches", "Advantages, the KL, baselines, the loss's weights, memory: each with handles to drag."],
  ["/glossary", "The glossary", "Every word, the objective symbol by symbol, and the papers."],
];

export function StartPage() {
  const runs = useRecentRuns();
  return html`<section class="hero">
      <div><h1>PPO for language models, <br />with every token's update in view</h1>
        <p class="lead">Sampling is slow, so each batch of replies is used for several updates, and every token is held on a leash meanwhile: its clipped ratio. Here you can see the leash, token by token.</p></div>
      <${Leash} />
    </section>
    <div class="doors">
      <section aria-labelledby="learn"><h2 id="learn">Learn</h2><ul class="door">${LEARN.map(([href, name, words]) => html`<li key=${href}><${Link} href=${href}><strong>${name}</strong><span>${words}</span></${Link}></li>`)}</ul></section>
      <section aria-labelledby="look"><h2 id="look">Look at a run</h2>
        <ul class="door"><li><${Link} href="/runs"><strong>All runs</strong><span>Live charts, checks, replies, and the microscope that scrubs through one batch's updates.</span></${Link}></li>
          ${runs.map(({ name, href, words }) => html`<li key=${name}><${Link} href=${href}><strong class="wrap">${name}</strong><span>${words}</span></${Link}></li>`)}</ul>
        ${!runs.length && html`<p class="door-note">No run is in this folder yet. <code>taut train</code> makes one in about twenty seconds, and so does the workshop.</p>`}</section>
    </div>`;
}
