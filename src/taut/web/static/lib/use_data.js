// Data of the API in a component.
import { useEffect, useState } from "preact/hooks";
import { get } from "taut/lib/api.js";

/**
 * {data, error, loading} of a path, asked for anew when it or anything in `again` changes; the old data stands
 * meanwhile. A path of null asks for nothing.
 */
export function useData(path, again = []) {
  const [state, setState] = useState({ path: null, data: undefined, error: undefined, loading: true });
  useEffect(() => {
    if (path === null) return undefined;
    const control = new AbortController();
    setState((old) => ({ path, data: old.path === path ? old.data : undefined, error: undefined, loading: true }));
    get(path, { signal: control.signal }).then(
      (data) => setState({ path, data, error: undefined, loading: false }),
      (error) => {
        if (error.name !== "AbortError") setState((old) => ({ ...old, error, loading: false }));
      },
    );
    return () => control.abort();
  }, [path, ...again]);
  return state;
}
