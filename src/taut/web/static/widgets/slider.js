// A number by dragging, by arrow keys, or typed: one range input and one number field of the same value.
import { useId, useState } from "preact/hooks";
import { fixed } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { subscripts } from "taut/lib/subscript.js";

function decimals(step) {
  return Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9)));
}

/**
 * `onInput(number)` hears every move. `format(number)` is what is said aloud and shown by the field;
 * `describe` is a line beneath. `label` may be markup.
 */
export function Slider({ label, value, min, max, step, onInput, format, describe, unit, disabled }) {
  const id = useId();
  const [typed, setTyped] = useState(null);
  const plain = value.toFixed(decimals(step));
  const shown = typed ?? (Math.abs(Number(plain) - value) < 1e-9 ? plain : String(Number(value.toFixed(decimals(step) + 3))));
  const say = format ? format(value) : fixed(value, decimals(step)) + (unit ? ` ${unit}` : "");
  const move = (event) => onInput(Number(event.currentTarget.value));
  const commit = () => {
    const number = Number(typed);
    if (typed !== null && typed.trim() !== "" && Number.isFinite(number)) onInput(Math.min(max, Math.max(min, number)));
    setTyped(null);
  };
  const key = (event) => {
    if (event.key === "Enter") commit();
    if (event.key === "Escape") setTyped(null);
  };
  const part = max > min ? (100 * (Math.min(max, Math.max(min, value)) - min)) / (max - min) : 0;
  return html`<div class="slider">
    <label for=${id}>${typeof label === "string" ? subscripts(label) : label}</label>
    <span class="slider-value">
      <input class="slider-field" type="number" aria-label=${typeof label === "string" ? `${label}, as a number` : "as a number"} min=${min} max=${max} step="any" value=${shown} disabled=${disabled}
        onInput=${(event) => setTyped(event.currentTarget.value)} onBlur=${commit} onKeyDown=${key} />${unit && html`<span class="unit">${unit}</span>`}</span>
    <input id=${id} type="range" min=${min} max=${max} step=${step} value=${value} disabled=${disabled} aria-valuetext=${say} aria-describedby=${describe ? `${id}-d` : undefined}
      style=${{ "--part": `${part}%` }} onInput=${move} />
    ${describe && html`<span id=${`${id}-d`} class="slider-note">${describe}</span>`}
  </div>`;
}
