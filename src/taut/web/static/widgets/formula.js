// A formula whose symbols and their explanations find each other.
import { useState } from "preact/hooks";
import { html } from "taut/lib/html.js";

/**
 * MathML from a tree of texts and [tag, attributes, ...children], as lists are shorter than markup.
 * An attribute `symbol` ties the node to what `link(key)` gives, as `useLinkedSymbols` does.
 */
export function mathml(node, link) {
  if (typeof node === "string") return node;
  const [tag, { symbol, ...attributes }, ...children] = node;
  const tied = symbol && link ? link(symbol) : {};
  return html`<${tag} ...${attributes} ...${tied}>${children.map((child) => mathml(child, link))}</${tag}>`;
}

/** One formula; `tree` as `mathml` takes it, `text` how it's read aloud. */
export function Formula({ tree, text, block, link }) {
  return html`<math xmlns="http://www.w3.org/1998/Math/MathML" display=${block ? "block" : "inline"} aria-label=${text}>${mathml(tree, link)}</math>`;
}

/** State shared by a formula and its list of symbols: [chosen key, handlers for the thing with this key]. */
export function useLinkedSymbols() {
  const [chosen, choose] = useState(null);
  const link = (key) => ({
    "data-symbol": key,
    "data-chosen": chosen === key || undefined,
    onMouseEnter: () => choose(key),
    onMouseLeave: () => choose(null),
    onFocusIn: () => choose(key),
    onFocusOut: () => choose(null),
  });
  return [chosen, link];
}
