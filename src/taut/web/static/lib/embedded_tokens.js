// Some replies of a binary answer of tokens (see web/tokens.py), as the answer that the server would have given.

const BYTES = { float32: 4, int32: 4, uint8: 1 };

export function tokenHeader(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  return JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
}

/** The answer for the replies of these numbers, as far as `buffer` has them. */
export function cutTokens(buffer, wanted) {
  const header = tokenHeader(buffer);
  const base = 4 + new DataView(buffer).getUint32(0, true);
  const replies = wanted.map((number) => header.replies.find(({ reply }) => reply === number)).filter(Boolean);
  const bodies = [];
  const columns = [];
  let offset = 0;
  for (const column of header.columns) {
    const parts = replies.map((reply) => slice(buffer, base, column, reply));
    const size = parts.reduce((sum, part) => sum + part.length, 0);
    columns.push({ ...column, shape: [size / BYTES[column.dtype]], offset });
    bodies.push(...parts, new Uint8Array(-size & 7));
    offset += size + (-size & 7);
  }
  let start = 0;
  let seenStart = 0;
  const placed = replies.map((reply) => {
    const here = { ...reply, start, seen_start: seenStart };
    start += reply.length;
    seenStart += reply.length * reply.seen.length;
    return here;
  });
  const left = wanted.filter((number) => !replies.some(({ reply }) => reply === number));
  return join({ ...header, replies: placed, columns, left_out: left }, bodies);
}

// The column of sightings has a reply's one behind the other; every other has one entry a token.
function slice(buffer, base, { name, dtype, offset }, reply) {
  const seen = name === "logprobs";
  const first = (seen ? reply.seen_start : reply.start) * BYTES[dtype];
  const size = reply.length * (seen ? reply.seen.length : 1) * BYTES[dtype];
  return new Uint8Array(buffer, base + offset + first, size);
}

function join(header, bodies) {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const padding = -(text.length + 4) & 7;
  const total = 4 + text.length + padding + bodies.reduce((sum, body) => sum + body.length, 0);
  const whole = new Uint8Array(total);
  new DataView(whole.buffer).setUint32(0, text.length + padding, true);
  whole.set(text, 4);
  whole.fill(32, 4 + text.length, 4 + text.length + padding);
  let place = 4 + text.length + padding;
  for (const body of bodies) {
    whole.set(body, place);
    place += body.length;
  }
  return whole.buffer;
}
