// The objective, in which symbols and their meanings point at each other.
import { html } from "taut/lib/html.js";
import { subscripts } from "taut/lib/subscript.js";
import { FORMULAS, SYMBOLS } from "taut/pages/glossary/formulas.js";
import { Formula, useLinkedSymbols } from "taut/widgets/formula.js";
import { Term } from "taut/widgets/term.js";

function Linked({ formula }) {
  const [, link] = useLinkedSymbols();
  return html`<section class="formula-card" aria-label=${formula.title}>
    <h3>${formula.title}</h3>
    <div class="formula-box" tabindex="0" role="group" aria-label=${`${formula.title}: ${formula.text}`}><${Formula} tree=${formula.tree} text=${formula.text} link=${link} block /></div>
    <ul class="symbols">${formula.symbols.map((key) => {
      const [sign, meaning, term] = SYMBOLS[key];
      return html`<li key=${key} ...${link(key)}><span class="symbol">${subscripts(sign)}</span><span><${Term} name=${term} />: ${meaning}</span></li>`;
    })}</ul>
  </section>`;
}

export function Objective() {
  return html`<div class="columns">${FORMULAS.map((formula) => html`<${Linked} key=${formula.title} formula=${formula} />`)}</div>`;
}
