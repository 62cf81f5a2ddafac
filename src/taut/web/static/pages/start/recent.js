// The newest runs, for the start page.
import { fixed } from "taut/lib/format.js";
import { number } from "taut/lib/number.js";
import { runPath } from "taut/lib/router.js";
import { useData } from "taut/lib/use_data.js";

/** At most four of {name, href, words}; none until the server has answered. */
export function useRecentRuns() {
  const { data } = useData("/api/runs");
  const runs = [...(data?.runs ?? [])].sort((a, b) => (number(b.created) ?? 0) - (number(a.created) ?? 0));
  return runs.slice(0, 4).map((run) => {
    const reward = number(run["reward/mean"]);
    const words = [run.status, `${run.steps} steps`, reward !== undefined && `reward ${fixed(reward)}`];
    return { name: run.run, href: runPath(run.run), words: words.filter(Boolean).join(" · ") };
  });
}
