// Lists of replies in an exported file: filtered, sorted and paged as web/reply_lists.py does it.
import { number } from "taut/lib/number.js";

const VALUES = {
  reply: (row) => row.reply,
  group: (row) => row.group,
  reward: (row) => number(row.reward),
  length: (row) => row.length,
  clip: (row) => number(row["clip/binding"]),
  kl: (row) => number(row["kl/old_k3"]),
  kl_ref: (row) => number(row["kl/ref_k3"]),
  failures: (row) => Object.keys(row.failures).length,
};
const WORDS = {
  failed: (row) => Object.keys(row.failures).length > 0,
  cut: (row) => row.finish_reason === "length",
  held: (row) => number(row["clip/binding"]) > 0,
};
const COMPARE = {
  "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "<": (a, b) => a < b, ">": (a, b) => a > b, "=": (a, b) => a === b,
};

/** `whole` is the unfiltered answer. Throws an Error for a filter that there is not. */
export function selectReplies(whole, query) {
  const conditions = (query.get("filter") ?? "").split(",").map((part) => part.trim()).filter(Boolean).map(condition);
  const sought = (query.get("search") ?? "").toLowerCase();
  const rows = whole.replies.filter(
    (row) => conditions.every((holds) => holds(row)) && `${row.prompt}\n${row.text}`.toLowerCase().includes(sought),
  );
  const offset = Number(query.get("offset") ?? 0);
  const limit = Number(query.get("limit") ?? 50);
  const sorted = sort(rows, Object.hasOwn(VALUES, query.get("sort")) ? VALUES[query.get("sort")] : VALUES.reply, query.get("order") === "desc" ? -1 : 1);
  return { ...whole, matched: rows.length, offset, replies: sorted.slice(offset, offset + limit) };
}

function condition(text) {
  if (Object.hasOwn(WORDS, text)) return WORDS[text];
  const found = /^(\w+)\s*(<=|>=|<|>|=)\s*(-?\d+(?:\.\d+)?(?:e-?\d+)?)$/.exec(text);
  if (!found || !Object.hasOwn(VALUES, found[1])) {
    throw new Error(`there is no filter "${text}": write ${Object.keys(WORDS).join(", ")}, or a comparison such as reward>=0.5 with one of ${Object.keys(VALUES).join(", ")}`);
  }
  return (row) => COMPARE[found[2]](VALUES[found[1]](row) ?? NaN, Number(found[3]));
}

// What has no value stands last in either order.
function sort(rows, valueOf, way) {
  const has = (row) => !Number.isNaN(valueOf(row) ?? NaN);
  const there = rows.filter(has).sort((a, b) => way * (valueOf(a) - valueOf(b)));
  return [...there, ...rows.filter((row) => !has(row))];
}
