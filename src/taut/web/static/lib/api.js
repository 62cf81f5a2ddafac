// The only way by which data reaches a page.

/** What the server refused, in its own words. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
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
  return (await ask(path, { signal })).json();
}

/** The bytes at an API path. */
export async function getBinary(path, { signal } = {}) {
  return (await ask(path, { signal })).arrayBuffer();
}

export async function post(path, body, { signal } = {}) {
  const headers = { "Content-Type": "application/json" };
  return (await ask(path, { method: "POST", headers, body: JSON.stringify(body), signal })).json();
}
