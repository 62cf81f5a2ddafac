// The optimiser steps inside one batch, played forth and back.
import { useEffect, useState } from "preact/hooks";
import { html } from "taut/lib/html.js";
import { useKeys } from "taut/lib/keyboard.js";

const PLAY_MILLISECONDS = 650;

/** "epoch 2 · step 1 of 4", of an optimiser step counted from 0 within its batch. */
export function stepWords(steps, at) {
  const { epoch, minibatch, applied } = steps[at];
  const last = steps.at(-1);
  if (!applied && at === steps.length - 1 && Object.keys(last.scalars).length === 0) return "after the last step";
  const many = steps.filter((step) => step.epoch === epoch).length;
  return `epoch ${epoch + 1} · step ${minibatch + 1} of ${many}${applied ? "" : " · not applied"}`;
}

export function Scrubber({ steps, at, onMove }) {
  const [playing, setPlaying] = useState(false);
  const last = steps.length - 1;
  const move = (to) => onMove(Math.min(last, Math.max(0, to)));
  useEffect(() => {
    if (!playing) return undefined;
    const wait = setTimeout(() => (at < last ? onMove(at + 1) : setPlaying(false)), PLAY_MILLISECONDS);
    return () => clearTimeout(wait);
  }, [playing, at]);
  const play = () => {
    if (!playing && at === last) onMove(0);
    setPlaying(!playing);
  };
  useKeys({
    "[": { does: "an optimiser step back", run: () => move(at - 1) },
    "]": { does: "an optimiser step on", run: () => move(at + 1) },
    " ": { does: "play the batch, or stop", run: play },
  });
  const words = stepWords(steps, at);
  return html`<div class="scrubber">
    <button class="button small" onClick=${play} aria-label=${playing ? "Stop" : "Play the optimiser steps of the batch"}>${playing ? "❚❚" : "▶"}</button>
    <button class="button small" onClick=${() => move(at - 1)} disabled=${at === 0} aria-label="Optimiser step back">‹</button>
    <div class="scrubber-track">
      <input type="range" min="0" max=${last} step="1" value=${at} aria-label="Optimiser step" aria-valuetext=${words} onInput=${(event) => move(Number(event.currentTarget.value))} style=${{ "--part": `${last ? (100 * at) / last : 0}%` }} />
      <div class="scrubber-ticks" aria-hidden="true">${steps.map((step, number) => html`<span key=${number} data-epoch=${step.epoch % 2} data-first=${step.epoch !== steps[number - 1]?.epoch ? step.epoch + 1 : undefined} data-at=${number === at || undefined} data-skipped=${!step.applied || undefined}></span>`)}</div>
    </div>
    <button class="button small" onClick=${() => move(at + 1)} disabled=${at === last} aria-label="Optimiser step on">›</button>
    <output class="scrubber-words" data-testid="at">${words}</output>
  </div>`;
}
