// The only way by which data reaches a page: from the server, or from the file that it was exported into.
import { embeddedBinary, embeddedJson } from "taut/lib/embedded.js";
import { exported } from "taut/lib/router.js";

/** What the server refused, in its own words. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** In an exported file: what `find` has at the path. */
function inFile(find, path) {
  const found = find(path);
  if (found === undefined) throw new ApiError(404, "This isn't in the exported file; the server has it.");
  return found;
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server doesn't answer. Is `taut web` still running?");
  }
  if (response.ok) return response;
  let message = `${response.status} ${response.statusText}`;
  try {
    message = (await response.json()).error ?? message;
  } catch {
    // Not an answer of ours: the status must do.
  }
  throw new ApiError(response.status, message);
}

/** The JSON at an API path, as get("/api/runs"). Throws ApiError. */
export async function get(path, { signal } = {}) {
  if (exported) return inFile(embeddedJson, path);
  return (await ask(path, { signal })).json();
}

/** The bytes at an API path. */
export async function getBinary(path, { signal } = {}) {
  if (exported) return inFile(embeddedBinary, path);
  return (await ask(path, { signal })).arrayBuffer();
}

/** As `post`, where the answer is bytes. */
export async function postForBinary(path, body, { signal } = {}) {
  return (await send(path, body, signal)).arrayBuffer();
}

export async function post(path, body, { signal } = {}) {
  return (await send(path, body, signal)).json();
}

function send(path, body, signal) {
  if (exported) throw new ApiError(0, "An exported file has no server to ask.");
  const headers = { "Content-Type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}
