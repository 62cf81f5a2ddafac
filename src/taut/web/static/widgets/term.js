// A technical word with its meaning beneath the pointer or the focus.
import { useId, useState } from "preact/hooks";
import { html } from "taut/lib/html.js";
import { Link } from "taut/lib/router.js";
import { TERMS } from "taut/pages/glossary/terms.js";

/** `name` as in the glossary; other words may stand on the page as children. */
export function Term({ name, children }) {
  const id = useId();
  const [open, setOpen] = useState(false);
  const term = TERMS.get(name);
  if (!term) throw new Error(`the glossary has no ${name}`);
  const show = () => setOpen(true);
  const hide = () => setOpen(false);
  return html`<span class="term" onMouseEnter=${show} onMouseLeave=${hide} onFocusIn=${show} onFocusOut=${hide} onKeyDown=${(event) => event.key === "Escape" && hide()}>
    <${Link} href=${`/glossary?term=${encodeURIComponent(name)}`} aria-describedby=${open ? id : undefined}>${children ?? name}</${Link}>
    ${open && html`<span role="tooltip" class="tooltip" id=${id}>${term.short}</span>`}
  </span>`;
}
