// A technical word with its meaning beneath the pointer or the focus.
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "taut/lib/html.js";
import { Link } from "taut/lib/router.js";
import { subscripts } from "taut/lib/subscript.js";
import { TERMS } from "taut/pages/glossary/terms.js";

/** `name` as in the glossary; other words may stand on the page as children. */
export function Term({ name, children }) {
  const id = useId();
  const [open, setOpen] = useState(false);
  const term = TERMS.get(name);
  if (!term) {
    console.error(`the glossary has no ${name}`); // which fails a test, where it mustn't cost a person the page
    return children ?? name;
  }
  const box = useRef();
  useLayoutEffect(() => {
    if (!open) return;
    const over = box.current.getBoundingClientRect().right - (document.documentElement.clientWidth - 8);
    if (over > 0) box.current.style.left = `${-over}px`; // else it would widen a narrow page
  }, [open]);
  const show = () => setOpen(true);
  const hide = () => setOpen(false);
  return html`<span class="term" onMouseEnter=${show} onMouseLeave=${hide} onFocusIn=${show} onFocusOut=${hide} onKeyDown=${(event) => event.key === "Escape" && hide()}>
    <${Link} href=${`/glossary?term=${encodeURIComponent(name)}`} aria-describedby=${open ? id : undefined}>${children ?? name}</${Link}>
    ${open && html`<span role="tooltip" class="tooltip" id=${id} ref=${box}>${subscripts(term.short)}</span>`}
  </span>`;
}
