// One of many, by the browser's own list.
import { useId } from "preact/hooks";
import { html } from "taut/lib/html.js";

/** `options` is [{value, label}] with values that are texts; `onChange(value)`. */
export function Select({ label, options, value, onChange, disabled }) {
  const id = useId();
  return html`<div class="select"><label for=${id}>${label}</label>
    <select id=${id} value=${value} disabled=${disabled} onChange=${(event) => onChange(event.currentTarget.value)}>
      ${options.map((option) => html`<option key=${option.value} value=${option.value} selected=${option.value === value}>${option.label}</option>`)}
    </select></div>`;
}
