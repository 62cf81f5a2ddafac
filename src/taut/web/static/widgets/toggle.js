// On or off.
import { html } from "taut/lib/html.js";

export function Toggle({ label, value, onChange, disabled, describe }) {
  return html`<label class="toggle"><input type="checkbox" role="switch" checked=${value} disabled=${disabled} onChange=${(event) => onChange(event.currentTarget.checked)} />
    <span class="toggle-track" aria-hidden="true"></span><span>${label}${describe && html`<span class="slider-note">${describe}</span>`}</span></label>`;
}
