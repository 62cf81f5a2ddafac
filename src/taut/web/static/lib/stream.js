// What happens to runs, as it happens: one stream for the whole tab, whatever its page watches.
import { useEffect, useState } from "preact/hooks";
import { get } from "taut/lib/api.js";
import { exported } from "taut/lib/router.js";
import { RunLog } from "taut/lib/run_log.js";

const AGAIN_MS = 2000; // until a stream that the server refused is asked for once more
const watched = new Map(); // name -> {log, watchers}
const listeners = new Set();
const list = { watchers: 0, rows: new Map(), loading: true, shown: null };
let source = null;
let opened = "";
let connected = true;
let opening = 0;
let telling = 0;

function wanted() {
  return JSON.stringify([[...watched.keys()], list.watchers > 0]);
}

/** Opens the stream that fits what is watched now, a moment later: a page's components come one by one. */
function reopen(after = 20) {
  clearTimeout(opening);
  opening = setTimeout(open, after);
}

function open() {
  for (const [name, { watchers }] of watched) if (!watchers) watched.delete(name);
  if (exported) return;
  // A hidden tab gives its connection up, of which a browser has six a server.
  const nothing = document.hidden || (!watched.size && !list.watchers);
  if (!nothing && source && source.readyState !== EventSource.CLOSED && opened === wanted()) return;
  source?.close();
  source = null;
  if (nothing) return;
  opened = wanted();
  const query = new URLSearchParams();
  for (const [name, { log }] of watched) {
    query.append("runs", name);
    query.append("after", log.cursor);
  }
  if (list.watchers) query.append("list", "1");
  source = new EventSource(`/api/stream?${query}`);
  source.addEventListener("run", ({ data }) => hearRun(JSON.parse(data)));
  source.addEventListener("runs", ({ data }) => hearList(JSON.parse(data)));
  source.onopen = () => setConnected(true);
  source.onerror = () => {
    setConnected(false);
    if (source.readyState === EventSource.CLOSED) reopen(AGAIN_MS); // else the browser tries by itself
  };
}

document.addEventListener("visibilitychange", () => reopen(0));

function setConnected(value) {
  if (connected !== value) tell();
  connected = value;
}

function hearRun(message) {
  watched.get(message.run)?.log.apply(message);
  tell();
}

function hearList({ reset, rows, gone }) {
  if (reset) list.rows = new Map();
  for (const row of rows) list.rows.set(row.run, row);
  for (const name of gone) list.rows.delete(name);
  list.loading = false;
  list.shown = null;
  tell();
}

/** Lets components draw anew, once for many messages. */
function tell() {
  if (!telling) {
    telling = setTimeout(() => {
      telling = 0;
      for (const listener of listeners) listener();
    }, 40);
  }
}

function useTold() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((count) => count + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
}

function watch(name) {
  if (!watched.has(name)) {
    watched.set(name, { log: new RunLog(name), watchers: 0 });
    if (exported) get(`/api/runs/${encodeURIComponent(name)}/scalars`).then(hearRun, (error) => hearRun({ run: name, status: "unreadable", error: error.message }));
  }
  const entry = watched.get(name);
  entry.watchers += 1;
  reopen();
  return () => {
    entry.watchers -= 1;
    reopen();
  };
}

/** Snapshots, as of `RunLog.snapshot`, of the runs of these names, in that order. */
export function useRuns(names) {
  useTold();
  useEffect(() => {
    const leave = names.map(watch);
    tell();
    return () => leave.forEach((stop) => stop());
  }, [JSON.stringify(names)]);
  return names.map((name) => (watched.get(name)?.log ?? new RunLog(name)).snapshot());
}

/** A snapshot of one run. */
export function useRun(name) {
  return useRuns([name])[0];
}

/** {rows, loading}: a row for each run, oldest first, as of GET /api/runs. */
export function useRunList() {
  useTold();
  useEffect(() => {
    list.watchers += 1;
    if (exported) get("/api/runs").then(({ runs }) => hearList({ reset: true, rows: runs, gone: [] }));
    else reopen();
    return () => {
      list.watchers -= 1;
      reopen();
    };
  }, []);
  if (list.shown === null) {
    const rows = [...list.rows.values()].sort((a, b) => a.created - b.created || (a.run < b.run ? -1 : 1));
    list.shown = { rows, loading: list.loading };
  }
  return list.shown;
}

/** Whether the server is there; false while the browser tries to reach it again. */
export function useConnected() {
  useTold();
  return connected;
}
