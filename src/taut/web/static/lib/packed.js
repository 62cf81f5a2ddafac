// Arrays as web/binary.py packs them, read in place: nothing is copied.

const ARRAYS = { float32: Float32Array, int32: Int32Array, uint8: Uint8Array };

/** {header, columns}: `columns` has a typed array a name. */
export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const columns = {};
  for (const { name, dtype, shape, offset } of header.columns) {
    columns[name] = new ARRAYS[dtype](buffer, 4 + length + offset, shape[0]);
  }
  return { header, columns };
}
