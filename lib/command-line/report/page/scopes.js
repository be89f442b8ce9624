'use strict';

// The scopes of steps. Exporters write the place of a node in the program into its name: /encoder/layer.0/attention/MatMul.

/** Deeper scopes are one. */
const DEEPEST = 8;

const partsOf = (label) => label.split('/').filter((part) => part !== '').slice(0, -1).slice(0, DEEPEST);

function common(one, other) {
  let length = 0;
  while (length < one.length && one[length] === other[length]) length++;
  return one.slice(0, length);
}

/** The scopes of each step. One without a name is in what those around it have in common. */
function pathsOf(labels) {
  const paths = labels.map((label) => (label === '' ? undefined : partsOf(label)));
  const next = new Array(paths.length);
  for (let i = paths.length - 1, last = []; i >= 0; i--) next[i] = last = paths[i] ?? last;
  let last = [];
  return paths.map((path, i) => (path === undefined ? common(last, next[i]) : (last = path)));
}

/**
 * The frames of a flame chart, row by row: `{name, first, last}`, steps that follow each other in the same scope.
 * @param {string[]} labels of the steps, in their order
 */
function framesOf(labels) {
  const paths = pathsOf(labels);
  const deepest = Math.max(0, ...paths.map(({ length }) => length));
  const rows = [];
  for (let depth = 0; depth < deepest; depth++) {
    const row = [];
    let key;
    paths.forEach((path, i) => {
      const own = path.length > depth ? path.slice(0, depth + 1).join('/') : undefined;
      if (own !== undefined && own === key) row[row.length - 1].last = i;
      else if (own !== undefined) row.push({ name: path[depth], path: own, first: i, last: i });
      key = own;
    });
    rows.push(row);
  }
  return rows;
}

module.exports = { framesOf };
