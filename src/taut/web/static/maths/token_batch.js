// The binary answer of /api/runs/NAME/steps/STEP/tokens, read in place: nothing is copied.

const ARRAYS = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array };
const NON_FINITE = { NaN, Infinity, "-Infinity": -Infinity };

// {step, replies, left_out, optimizer_steps, constants, texts, special, tokens, columns}: `columns` has one typed array
// a name over the tokens of all replies, a quantity that the run lacks being no name.
export function readTokens(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const columns = {};
  for (const { name, dtype, shape, offset } of header.columns) {
    columns[name] = new ARRAYS[dtype](buffer, 4 + length + offset, shape[0]);
  }
  return {
    ...header,
    columns,
    constants: numbers(header.constants),
    replies: header.replies.map((reply) => ({
      ...reply,
      reward: number(reply.reward),
      bootstrap_value: number(reply.bootstrap_value),
      terms: numbers(reply.terms),
    })),
    tokens: columns.ids.length,
  };
}

// A number that JSON cannot hold comes as a string.
function number(value) {
  return typeof value === "string" && Object.hasOwn(NON_FINITE, value) ? NON_FINITE[value] : value;
}

function numbers(record) {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, number(value)]));
}
