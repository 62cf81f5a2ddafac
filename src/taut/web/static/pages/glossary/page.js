// Words, the objective, sources.
import { useEffect } from "preact/hooks";
import { html } from "taut/lib/html.js";
import { subscripts } from "taut/lib/subscript.js";
import { useUrlState } from "taut/lib/url_state.js";
import { Objective } from "taut/pages/glossary/objective.js";
import { SOURCES } from "taut/pages/glossary/sources.js";
import { TERMS, find } from "taut/pages/glossary/terms.js";
import { Say } from "taut/widgets/readout.js";

function Paper({ arxiv, children }) {
  return html`<a href=${`https://arxiv.org/abs/${arxiv}`} target="_blank" rel="noreferrer noopener">${children ?? `arXiv:${arxiv}`}</a>`;
}

function anchor(name) {
  return `term-${encodeURIComponent(name)}`;
}

function Entry({ term, current }) {
  return html`<div class="entry" id=${anchor(term.name)} data-current=${current || undefined}>
    <dt>${term.name}</dt>
    <dd>${subscripts(term.short)}${term.more && html` <span class="muted">${subscripts(term.more)}</span>`}${term.arxiv && html` <${Paper} arxiv=${term.arxiv} />`}</dd>
  </div>`;
}

export function GlossaryPage() {
  const [wanted, want] = useUrlState("q", "");
  const [chosen] = useUrlState("term", "");
  const current = TERMS.get(chosen)?.name;
  const topics = find(wanted);
  const count = topics.reduce((sum, [, found]) => sum + found.length, 0);
  useEffect(() => {
    if (current) document.getElementById(anchor(current))?.scrollIntoView({ block: "center" });
  }, [current]);
  return html`<div class="page-head"><div><h1>Glossary</h1><p class="lead">The words of these pages, the objective symbol by symbol, and where it all comes from.</p></div></div>
    <section aria-labelledby="objective"><h2 id="objective">The objective</h2>
      <p class="muted">Point at a symbol, or at its line, to see them together.</p><${Objective} /></section>
    <section class="section" aria-labelledby="words"><div class="page-head"><h2 id="words">Words</h2>
      <label class="search">Search <input class="field" type="search" value=${wanted} onInput=${(event) => want(event.currentTarget.value)} /></label></div>
      <${Say} text=${wanted ? `${count} found` : ""} />
      ${!count && html`<p class="muted">No entry has “${wanted}”.</p>`}
      <div class="topics">${topics.map(([topic, found]) => html`<div key=${topic}><h3>${topic}</h3><dl>${found.map((term) => html`<${Entry} key=${term.name} term=${term} current=${term.name === current} />`)}</dl></div>`)}</div></section>
    <section class="section" aria-labelledby="sources"><h2 id="sources">Sources</h2>
      <ol class="sources">${SOURCES.map(({ arxiv, authors, title, year, brings }) => html`<li key=${arxiv}>${authors}: <cite>${title}</cite>, ${year}. <${Paper} arxiv=${arxiv} /><span class="muted"> · ${brings}</span></li>`)}</ol>
      <p class="muted small">The links lead to arxiv.org; these pages themselves ask it for nothing.</p></section>`;
}
