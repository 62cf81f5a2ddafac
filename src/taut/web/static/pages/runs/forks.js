// Runs as a tree: a fork stands beneath the run that it goes on from.

/** Rows, each {..., depth}, in the order given but for forks, which follow their parent. */
export function asTree(rows) {
  const names = new Set(rows.map(({ run }) => run));
  const below = new Map();
  for (const row of rows) {
    const above = row.parent !== row.run && names.has(row.parent) ? row.parent : null;
    if (!below.has(above)) below.set(above, []);
    below.get(above).push(row);
  }
  const placed = new Set();
  const tree = [];
  const place = (row, depth) => {
    if (placed.has(row.run)) return; // a directory copied over its own parent could make a ring
    placed.add(row.run);
    tree.push({ ...row, depth });
    for (const fork of below.get(row.run) ?? []) place(fork, depth + 1);
  };
  for (const row of below.get(null) ?? []) place(row, 0);
  for (const row of rows) place(row, 0);
  return tree;
}

/** The run of that name, all that it was forked from, and all forks of these, as a tree. */
export function family(rows, name) {
  const byName = new Map(rows.map((row) => [row.run, row]));
  let root = name;
  const seen = new Set();
  while (byName.get(byName.get(root)?.parent) && !seen.has(root)) {
    seen.add(root);
    root = byName.get(root).parent;
  }
  const tree = asTree(rows);
  const start = tree.findIndex(({ run }) => run === root);
  if (start < 0) return [];
  const rest = tree.slice(start + 1);
  const end = rest.findIndex(({ depth }) => depth <= tree[start].depth);
  return [tree[start], ...(end < 0 ? rest : rest.slice(0, end))];
}
