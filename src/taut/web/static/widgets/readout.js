// Numbers that change under the hand, read aloud once they rest.
import { useEffect, useState } from "preact/hooks";
import { html } from "taut/lib/html.js";

/** Says `text` to a screen reader when it has stood for half a second. Nothing is seen. */
export function Say({ text }) {
  const [said, setSaid] = useState("");
  useEffect(() => {
    const wait = setTimeout(() => setSaid(text), 500);
    return () => clearTimeout(wait);
  }, [text]);
  return html`<span class="visually-hidden" role="status" aria-live="polite">${said}</span>`;
}

/**
 * `items` is [{label, value, note, tone}], `tone` one of good, bad, warn, clip; `words` a sentence below them.
 * What is spoken is `say`, or else all of it.
 */
export function Readout({ items, words, say }) {
  const spoken = say ?? [...items.map(({ label, value }) => `${typeof label === "string" ? label : ""} ${value}`), words].filter(Boolean).join(", ");
  return html`<div class="readout">
    <dl>${items.map(({ label, value, note, tone }) => html`<div class="readout-item" data-tone=${tone}><dt>${label}</dt><dd>${value}</dd>${note && html`<dd class="readout-note">${note}</dd>`}</div>`)}</dl>
    ${words && html`<p class="readout-words">${words}</p>`}
    <${Say} text=${spoken} />
  </div>`;
}
