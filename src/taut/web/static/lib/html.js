// Markup in template literals, bound to preact: html`<p>${text}</p>`. Text is always a text node.
import htm from "htm";
import { h } from "preact";

export const html = htm.bind(h);
