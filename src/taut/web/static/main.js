// The shell: top bar, routes, footer.
import { render } from "preact";
import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import { html } from "taut/lib/html.js";
import { useKeys, useShownKeys } from "taut/lib/keyboard.js";
import { Link, exported, match, usePath } from "taut/lib/router.js";
import { setTheme, useTheme } from "taut/lib/theme.js";
import { BenchesPage } from "taut/pages/benches/page.js";
import { ClipPage } from "taut/pages/clip/page.js";
import { GlossaryPage } from "taut/pages/glossary/page.js";
import { PromptPage } from "taut/pages/microscope/prompt.js";
import { ReplyPage } from "taut/pages/microscope/reply.js";
import { StepPage } from "taut/pages/microscope/step.js";
import { ComparePage } from "taut/pages/runs/compare.js";
import { RunsPage } from "taut/pages/runs/list.js";
import { RunPage } from "taut/pages/runs/run.js";
import { StartPage } from "taut/pages/start/page.js";
import { WorkshopPage } from "taut/pages/workshop/page.js";
import { Dialog } from "taut/widgets/dialog.js";

// Parts in a path reach the page decoded, as properties of these names.
const ROUTES = [
  ["/", StartPage, "Start"],
  ["/clip", ClipPage, "Clip"],
  ["/workshop", WorkshopPage, "Workshop"],
  ["/benches", BenchesPage, "Benches"],
  ["/runs", RunsPage, "Runs"],
  ["/runs/:name", RunPage, "Run"],
  ["/runs/:name/steps/:step", StepPage, "Step"],
  ["/runs/:name/steps/:step/replies/:reply", ReplyPage, "Reply"],
  ["/runs/:name/prompts/:prompt", PromptPage, "Prompt"],
  ["/compare", ComparePage, "Compare"],
  ["/glossary", GlossaryPage, "Glossary"],
];
const BAR = [["/clip", "Clip"], ["/workshop", "Workshop"], ["/benches", "Benches"], ["/runs", "Runs"], ["/glossary", "Glossary"]];
const THEMES = { system: ["light", "Theme: as the system"], light: ["dark", "Theme: light"], dark: ["system", "Theme: dark"] };
const THEME_SIGN = { system: "◐", light: "○", dark: "●" };

function find(path) {
  for (const [pattern, Page, title] of ROUTES) {
    const parts = match(pattern, path);
    if (parts) return [Page, parts, [title, ...Object.values(parts)].join(" · ")];
  }
  return [Missing, {}, "Not found"];
}

function Missing() {
  return html`<h1>Nothing is here</h1><p class="lead">No page has this address. <${Link} href="/">To the start</${Link}></p>`;
}

function Broken({ children }) {
  const [error, reset] = useErrorBoundary((caught) => console.error(caught));
  if (!error) return children;
  return html`<div class="panel" role="alert"><h2>This page stopped</h2><p class="wrap mono">${String(error.message ?? error)}</p>
    <p><button class="button" onClick=${reset}>Draw it again</button></p></div>`;
}

function Mark() {
  return html`<svg viewBox="0 0 32 32" aria-hidden="true"><path d="M3 26 18 11h11" fill="none" stroke="currentColor" stroke-width="3" stroke-linecap="round" stroke-linejoin="round" /><circle cx="18" cy="11" r="4" fill="var(--s5)" /></svg>`;
}

function Bar({ path, onHelp }) {
  const [theme] = useTheme();
  const [next, words] = THEMES[theme];
  const here = (href) => (path === href || path.startsWith(`${href}/`) || (href === "/runs" && path === "/compare") ? "page" : undefined);
  const shown = exported ? [] : BAR;
  return html`<header class="top"><div class="top-in">
    <${Link} class="brand" href="/" aria-label="Taut: start"><${Mark} /><span>Taut</span></${Link}>
    <nav class="nav" aria-label="Pages">${shown.map(([href, label]) => html`<${Link} href=${href} aria-current=${here(href)}>${label}</${Link}>`)}</nav>
    <button class="icon-button" onClick=${onHelp} aria-label="Keys of this page" title="Keys of this page (?)">?</button>
    <button class="icon-button" onClick=${() => setTheme(next)} aria-label=${words} title=${words}>${THEME_SIGN[theme]}</button>
  </div></header>`;
}

const KEY_NAMES = { " ": "Space", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };

function Keys({ onClose }) {
  const keys = useShownKeys();
  return html`<${Dialog} title="Keys of this page" onClose=${onClose}>
    <dl class="keys">${keys.map(([key, does]) => html`<dt><kbd>${KEY_NAMES[key] ?? key}</kbd></dt><dd>${does}</dd>`)}
      <dt><kbd>Tab</kbd></dt><dd>to the next control; arrows move a slider or a handle</dd></dl>
  </${Dialog}>`;
}

function App() {
  const path = usePath();
  const [Page, parts, title] = find(path);
  const [help, setHelp] = useState(false);
  const main = useRef();
  const first = useRef(true);
  useKeys({ "?": { does: "these keys", run: () => setHelp(true) } });
  useEffect(() => {
    document.title = path === "/" ? "Taut" : `${title} · Taut`;
    if (!first.current) main.current.focus({ preventScroll: true }); // a screen reader then starts at the new page
    first.current = false;
  }, [path]);
  return html`<div class="shell">
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>To the content</a>
    <${Bar} path=${path} onHelp=${() => setHelp(true)} />
    <main class="main" id="main" tabindex="-1" ref=${main}><${Broken} key=${path}><${Page} ...${parts} /></${Broken}></main>
    <footer class="foot"><div class="foot-in"><span>Taut: PPO for language models, with every token's update in view.</span><span>This page asks nothing of any other host.</span></div></footer>
    ${help && html`<${Keys} onClose=${() => setHelp(false)} />`}
  </div>`;
}

render(html`<${App} />`, document.getElementById("app"));
