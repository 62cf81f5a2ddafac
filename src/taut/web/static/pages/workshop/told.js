// What the server tells of the workshop, asked for again as long as something happens.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, post } from "taut/lib/api.js";

const BUSY_MS = 1000;
const IDLE_MS = 5000;

function isBusy({ jobs, runs }) {
  return jobs.some(({ status }) => status !== "failed") || runs.some(({ status }) => status === "running");
}

/** {told, error, ask}: the newest GET /api/workshop; `ask()` asks at once. */
export function useWorkshop() {
  const [state, setState] = useState({ told: undefined, error: undefined });
  const asking = useRef();
  useEffect(() => {
    let timer = 0;
    let gone = false;
    const look = async () => {
      clearTimeout(timer);
      let next = IDLE_MS;
      try {
        if (!document.hidden) {
          const told = await get("/api/workshop");
          if (gone) return;
          setState({ told, error: undefined });
          next = isBusy(told) ? BUSY_MS : IDLE_MS;
        }
      } catch (error) {
        if (gone) return;
        setState((old) => ({ ...old, error }));
        next = BUSY_MS;
      }
      clearTimeout(timer);
      timer = setTimeout(look, next);
    };
    asking.current = look;
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      gone = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);
  return { ...state, ask: () => asking.current() };
}

/** Starts `runs` [{settings, fault}] and returns their names. Throws ApiError in the config's words. */
export async function start(runs) {
  return (await post("/api/training", { runs })).runs;
}

export async function stop(name) {
  return (await post(`/api/training/${encodeURIComponent(name)}/stop`, {})).done;
}
