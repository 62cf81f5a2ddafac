// One of a few: radio buttons that look like one bar.
import { useId } from "preact/hooks";
import { html } from "taut/lib/html.js";

/** `options` is [{value, label, title, disabled}]; `onChange(value)`. */
export function Segmented({ label, options, value, onChange, hideLabel }) {
  const id = useId();
  return html`<fieldset class="segmented">
    <legend class=${hideLabel ? "visually-hidden" : undefined}>${label}</legend>
    <div class="segments">${options.map((option) => html`<label key=${option.value} title=${option.title} data-checked=${option.value === value || undefined}>
      <input type="radio" name=${id} value=${option.value} checked=${option.value === value} disabled=${option.disabled} onChange=${() => onChange(option.value)} /><span>${option.label}</span>
    </label>`)}</div>
  </fieldset>`;
}
