// How a run stands, as a word with a sign.
import { useEffect, useState } from "preact/hooks";
import { ago } from "taut/lib/format.js";
import { html } from "taut/lib/html.js";
import { Badge } from "taut/widgets/badge.js";

const STATUS = {
  running: ["live", "running"],
  finished: ["good", "finished"],
  interrupted: ["quiet", "stopped"],
  failed: ["bad", "failed"],
  dead: ["bad", "dead"],
  unreadable: ["warn", "unreadable"],
  gone: ["quiet", "gone"],
  loading: ["quiet", "reading"],
};
const STORY = {
  running: "It goes on.",
  interrupted: "Stopped by a person; taut train --resume takes it up.",
  failed: "It ended with an error: see its events.",
  dead: "It says that it is running, and has given no sign of life for a minute: its process was killed, or the machine.",
  unreadable: "Its store is damaged, or of another version of Taut.",
  gone: "There is no run of this name any more.",
};
export const STATUSES = ["running", "finished", "interrupted", "failed", "dead", "unreadable"];

/** One that another Taut may have written stands as it is. */
const statusOf = (status) => (Object.hasOwn(STATUS, status) ? STATUS[status] : ["quiet", String(status)]);

export function statusWord(status) {
  return statusOf(status)[1];
}

/** `heartbeat` in seconds since 1970, for who asks when the run was last heard of. */
export function Status({ status, heartbeat }) {
  const [tone, word] = statusOf(status);
  const heard = heartbeat ? ` Last sign of life ${ago(heartbeat)}.` : "";
  return html`<${Badge} tone=${tone} title=${`${Object.hasOwn(STORY, status) ? STORY[status] : ""}${status === "running" || status === "dead" ? heard : ""}`.trim() || undefined}>${word}</${Badge}>`;
}

/** Seconds since 1970; the component draws anew every `seconds`. */
export function useNow(seconds = 15) {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 1000 * seconds);
    return () => clearInterval(timer);
  }, [seconds]);
  return now;
}
