// The state of the page's token: in the address, whole, so that a link shows what you see.

import { useMemo } from 'preact/hooks';
import { useUrlState } from 'taut/lib/url_state.js';
import { MOST, walk } from 'taut/maths/clip_walk.js';

export const LEAST_RATIO = 0.01;
export const MOST_RATIO = MOST - 0.01;
export const MOST_STEPS = 60;

/** A number of the address, held between two others. */
export function within(low, high) {
  return {
    parse: (text) => {
      const value = Number(text);
      return text.trim() === '' || !Number.isFinite(value) ? undefined : Math.min(high, Math.max(low, value));
    },
    print: String,
  };
}

const rounded = (value, digits) => Number(value.toFixed(digits));

/** Everything about the token, and what a person can do to it. Every change of a setting begins a new walk from
 * where the token stands: a trail lies on one curve. */
export function useToken() {
  const [advantage, setAdvantage] = useUrlState('A', 0.8, within(-2, 2));
  const [clipLow, setLow] = useUrlState('low', 0.2, within(0, 1));
  const [clipHigh, setHigh] = useUrlState('high', 0.2, within(0, 1));
  const [linked, setLinked] = useUrlState('linked', true);
  const [start, setStart] = useUrlState('rho', 1, within(LEAST_RATIO, MOST_RATIO));
  const [steps, setSteps] = useUrlState('steps', 0, within(0, MOST_STEPS));
  const [stepSize, setStepSize] = useUrlState('eta', 0.25, within(0, 2));

  const count = Math.round(steps);
  const setting = { advantage, clipLow, clipHigh };
  const parts = [start, count, stepSize, advantage, clipLow, clipHigh];
  const states = useMemo(() => walk({ start, steps: count, stepSize, ...setting }), parts);
  const twin = useMemo(
    () => walk({ start, steps: count, stepSize, advantage, clipLow: Infinity, clipHigh: Infinity }), parts,
  );
  const here = states.at(-1);

  const restartAt = (ratio) => {
    setStart(rounded(Math.min(MOST_RATIO, Math.max(LEAST_RATIO, ratio)), 4));
    setSteps(0);
  };
  const changing = (set) => (value) => { restartAt(here.ratio); set(value); };
  return {
    setting, linked, start, steps: count, stepSize, states, twin, here,
    setRatio: (ratio) => restartAt(rounded(ratio, 2)),
    setAdvantage: changing(setAdvantage),
    setStepSize: changing(setStepSize),
    setLow: changing((value) => { setLow(value); if (linked) setHigh(value); }),
    setHigh: changing((value) => { setHigh(value); if (linked) setLow(value); }),
    setLinked: (value) => { setLinked(value); if (value && clipHigh !== clipLow) changing(setHigh)(clipLow); },
    place: (point) => {
      setAdvantage(point.advantage);
      restartAt(point.ratio);
      if (point.epsilon !== undefined) { setLow(point.epsilon); setHigh(point.epsilon); }
    },
    step: () => setSteps(Math.min(MOST_STEPS, count + 1)),
    reset: () => restartAt(1),
  };
}
