// What the API answered when this file was exported: one element an answer, read when it is first asked for.
import { selectReplies } from "taut/lib/embedded_replies.js";
import { cutTokens, tokenHeader } from "taut/lib/embedded_tokens.js";

const elements = new Map();
for (const element of document.querySelectorAll("#taut-embedded > [data-path]")) elements.set(element.dataset.path, element);
const read = new Map();

/** The JSON that the API has at this path, or undefined. */
export function embeddedJson(path) {
  const [place, query = ""] = path.split(/\?(.*)/s);
  const found = once(path, JSON.parse) ?? once(place, JSON.parse);
  if (found && /\/steps\/\d+\/replies$/.test(place)) return selectReplies(found, new URLSearchParams(query));
  return found;
}

/** The bytes at this path, or undefined; of tokens those of the replies that are asked for. */
export function embeddedBinary(path) {
  const [place, query = ""] = path.split(/\?(.*)/s);
  const parts = [...elements.keys()].filter((key) => key.startsWith(`${place}#`)).map((key) => once(key, fromBase64));
  const asked = new URLSearchParams(query).get("replies");
  if (asked === null) return parts[0];
  const wanted = asked.split(",").map(Number);
  const part = parts.find((buffer) => tokenHeader(buffer).replies.some(({ reply }) => reply === wanted[0]));
  return part && cutTokens(part, wanted);
}

function once(key, parse) {
  if (!read.has(key) && elements.has(key)) read.set(key, parse(elements.get(key).textContent));
  return read.get(key);
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)).buffer;
}
