// What the server's child process makes of a recorded batch under other settings.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, post, postForBinary } from "taut/lib/api.js";
import { unpack } from "taut/lib/packed.js";
import { runPath } from "taut/lib/router.js";
import { standing } from "taut/maths/microscope.js";

const REST_MS = 15; // between the moves of a slider and a question

export const SHORT = {
  low: "algorithm.clip_low",
  high: "algorithm.clip_high",
  dual: "algorithm.dual_clip",
  lam: "algorithm.lam",
  gamma: "algorithm.gamma",
  beta: "kl.coefficient",
  norm: "algorithm.loss_normalization",
};

/** {"algorithm.clip_low": 0.1} as "low:0.1", for the address; and back. */
export const CHANGES = {
  print: (changes) => Object.entries(SHORT).filter(([, key]) => key in changes).map(([short, key]) => `${short}:${changes[key] ?? "off"}`).join(","),
  parse: (text) => {
    const changes = {};
    for (const part of text.split(",")) {
      const [short, value] = part.split(":");
      if (!Object.hasOwn(SHORT, short) || !value) continue;
      changes[SHORT[short]] = value === "off" ? null : short === "norm" ? value : Number(value);
    }
    return Object.values(changes).some(Number.isNaN) ? undefined : changes;
  },
};

/** {described, error}: the settings in force and why some are fixed; the first answer waits for torch. */
export function useDescription(name, step, open) {
  const [state, setState] = useState({});
  useEffect(() => {
    if (!open) return undefined;
    const control = new AbortController();
    setState({});
    get(`/api${runPath(name, "steps", step)}/counterfactual`, { signal: control.signal }).then(
      (described) => setState({ described }),
      (error) => error.name !== "AbortError" && setState({ error }),
    );
    return () => control.abort();
  }, [name, step, open]);
  return state;
}

/** {answer: {header, columns}, error, waiting} of `changes`, newest first: what is overtaken is forgotten. */
export function useRecomputed(name, batch, changes) {
  const [state, setState] = useState({});
  const panel = useRef(String(Math.random())).current;
  const turn = useRef(0);
  const asked = JSON.stringify(changes);
  useEffect(() => {
    if (asked === "{}") {
      setState({});
      return undefined;
    }
    let current = true;
    setState((old) => ({ ...old, waiting: true }));
    const replies = batch.replies.map(({ reply }) => reply);
    turn.current += 1; // requests may overtake each other on their way
    const question = { changes: JSON.parse(asked), replies, panel, turn: turn.current };
    const wait = setTimeout(() => {
      postForBinary(`/api${runPath(name, "steps", batch.step)}/counterfactual`, question).then(
        (buffer) => current && buffer.byteLength && setState({ answer: unpack(buffer) }), // none: it was overtaken
        (error) => current && setState({ error }),
      );
    }, REST_MS);
    return () => {
      current = false;
      clearTimeout(wait);
    };
  }, [name, batch, asked]);
  return state;
}

/** [state, start]: the step taken once more; `state` is {waiting}, {found} or {error}. */
export function useReplay(name, step) {
  const [state, setState] = useState({});
  const start = () => {
    setState({ waiting: true });
    post(`/api${runPath(name, "steps", step)}/replay`, {}).then((found) => setState({ found }), (error) => setState({ error }));
  };
  return [state, start];
}

/** What the microscope draws in place of what was stored: see `momentOf`. */
export function overlayOf({ header, columns }, batch) {
  const constants = {};
  for (const [key, value] of Object.entries(header.settings)) {
    if (key.startsWith("algorithm.")) constants[key.slice("algorithm.".length)] = value;
  }
  // The answer has the states of a reply's sightings one behind the other, as the batch its logprobs.
  const states = (at) => {
    const found = new Uint8Array(batch.tokens);
    for (const { seen, seen_start: first, start, length } of batch.replies) {
      const place = standing(seen, at);
      if (place >= 0) found.set(columns.states.subarray(first + place * length, first + (place + 1) * length), start);
    }
    return found;
  };
  return { constants, advantages: columns.advantages, states };
}
