// A formula whose symbols and their explanations find each other.
import { useState } from "preact/hooks";
import { html } from "taut/lib/html.js";

/** MathML from a tree of texts and [tag, attributes, ...children], as lists are shorter than markup. */
export function mathml(node) {
  if (typeof node === "string") return node;
  const [tag, attributes, ...children] = node;
  return html`<${tag} ...${attributes}>${children.map(mathml)}</${tag}>`;
}

/** One formula; `tree` as `mathml` takes it, `text` how it's read aloud. */
export function Formula({ tree, text, block }) {
  return html`<math xmlns="http://www.w3.org/1998/Math/MathML" display=${block ? "block" : "inline"} aria-label=${text}>${mathml(tree)}</math>`;
}

/** State shared by a formula and its list of symbols: [chosen key, handlers for the thing with this key]. */
export function useLinkedSymbols() {
  const [chosen, choose] = useState(null);
  const link = (key) => ({
    "data-symbol": key,
    "data-chosen": chosen === key || undefined,
    onMouseEnter: () => choose(key),
    onMouseLeave: () => choose(null),
    onFocus: () => choose(key),
    onBlur: () => choose(null),
  });
  return [chosen, link];
}
