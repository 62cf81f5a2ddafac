// A window above the page: the browser's own dialog, which keeps the focus and closes by Escape.
import { useEffect, useId, useRef } from "preact/hooks";
import { html } from "taut/lib/html.js";

export function Dialog({ title, onClose, children }) {
  const box = useRef();
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    box.current.showModal();
    return () => before?.focus?.();
  }, []);
  const press = (event) => event.target === box.current && onClose();
  return html`<dialog class="dialog" ref=${box} aria-labelledby=${id} onClose=${onClose} onClick=${press}>
    <div class="dialog-in"><header><h2 id=${id}>${title}</h2><button class="icon-button" aria-label="Close" onClick=${onClose}>✕</button></header>${children}</div>
  </dialog>`;
}
