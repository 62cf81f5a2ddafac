// The shell: top bar, routes, footer.
import { render } from "preact";
import { useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import { html } from "taut/lib/html.js";
import { useKeys, useShownKeys } from "taut/lib/keyboard.js";
import { Link, exported, match, usePath } from "taut/lib/router.js";
import { setTheme, useTheme } from "taut/lib/theme.js";
import { Dialog } from "taut/widgets/dialog.js";

// A page's modules are loaded when it is first opened. Parts in a path reach it decoded, as properties of these names.
const ROUTES = [
  ["/", "Start", () => import("taut/pages/start/page.js").then((page) => page.StartPage)],
  ["/clip", "Clip", () => import("taut/pages/clip/page.js").then((page) => page.ClipPage)],
  ["/workshop", "Workshop", () => import("taut/pages/workshop/page.js").then((page) => page.WorkshopPage)],
  ["/benches", "Benches", () => import("taut/pages/benches/page.js").then((page) => page.BenchesPage)],
  ["/runs", "Runs", () => import("taut/pages/runs/list.js").then((page) => page.RunsPage)],
  ["/runs/:name", "Run", () => import("taut/pages/runs/run.js").then((page) => page.RunPage)],
  ["/runs/:name/steps/:step", "Step", () => import("taut/pages/microscope/step.js").then((page) => page.StepPage)],
  ["/runs/:name/steps/:step/replies/:reply", "Reply", () => import("taut/pages/microscope/reply.js").then((page) => page.ReplyPage)],
  ["/runs/:name/prompts/:prompt", "Prompt", () => import("taut/pages/microscope/prompt.js").then((page) => page.PromptPage)],
  ["/compare", "Compare", () => import("taut/pages/runs/compare.js").then((page) => page.ComparePage)],
  ["/glossary", "Glossary", () => import("taut/pages/glossary/page.js").then((page) => page.GlossaryPage)],
];
const BAR = [["/clip", "Clip"], ["/workshop", "Workshop"], ["/benches", "Benches"], ["/runs", "Runs"], ["/glossary", "Glossary"]];
const THEMES = { system: ["light", "Theme: as the system"], light: ["dark", "Theme: light"], dark: ["system", "Theme: dark"] };
const THEME_SIGN = { system: "◐", light: "○", dark: "●" };

const loaded = new Map();

function find(path) {
  for (const [pattern, title, load] of ROUTES) {
    const parts = match(pattern, path);
    if (parts) return { load, parts, title: [title, ...Object.values(parts)].join(" · ") };
  }
  return { load: null, parts: {}, title: "Not found" };
}

/** The page of a route, once its modules are here. */
function Page({ load, parts }) {
  const [, redraw] = useState(0);
  const [failed, fail] = useState(null);
  useEffect(() => {
    if (!loaded.has(load)) load().then((found) => { loaded.set(load, found); redraw(1); }, fail);
  }, []);
  if (failed) throw failed;
  const Found = loaded.get(load);
  return Found ? html`<${Found} ...${parts} />` : html`<p class="faint" role="status">Loading …</p>`;
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
    <button class="icon-button keys-button" onClick=${onHelp} aria-label="Keys of this page" title="Keys of this page (?)">?</button>
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
  const { load, parts, title } = find(path);
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
    <main class="main" id="main" tabindex="-1" ref=${main}><${Broken} key=${path}>${load ? html`<${Page} load=${load} parts=${parts} />` : html`<${Missing} />`}</${Broken}></main>
    <footer class="foot"><div class="foot-in"><span>Taut: PPO for language models, with every token's update in view.</span><span>This page asks nothing of any other host.</span></div></footer>
    ${help && html`<${Keys} onClose=${() => setHelp(false)} />`}
  </div>`;
}

render(html`<${App} />`, document.getElementById("app"));
