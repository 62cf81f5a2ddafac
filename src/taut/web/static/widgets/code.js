// A piece of Python to be copied.
import { useEffect, useState } from "preact/hooks";
import { html } from "taut/lib/html.js";

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // no clipboard here: the text can still be selected
  }
}

/** `source` is the text; `title` says what it prints. */
export function Code({ source, title = "The same in Python" }) {
  const [state, setState] = useState("Copy");
  useEffect(() => {
    if (state === "Copy") return undefined;
    const wait = setTimeout(() => setState("Copy"), 1600);
    return () => clearTimeout(wait);
  }, [state]);
  const press = async () => setState((await copy(source)) ? "Copied" : "Select it and copy");
  return html`<figure class="code"><figcaption><span>${title}</span><button class="button small" onClick=${press}><span aria-live="polite">${state}</span></button></figcaption>
    <pre tabindex="0" role="region" aria-label=${title}><code>${source}</code></pre></figure>`;
}
