import { aligned } from '../aligned.mjs';

// The comparison of models as text for a terminal.
export function modelTable(rows, { left, right }) {
  const head = ['model', `${left} ms`, 'best', `${right} ms`, 'best', 'ratio', 'to fastest', 'spread', 'load', 'load', 'MiB', 'MiB', 'difference', 'of', 'control', 'control'];
  const body = rows.map((row) => {
    if (row.error !== undefined) return [row.model, 'failed', ...head.slice(2).map(() => '')];
    const both = (pick) => [pick(row.left), pick(row.right)];
    return [
      row.model,
      ms(row.left.medianMs),
      ms(row.left.bestMs),
      ms(row.right.medianMs),
      ms(row.right.bestMs),
      row.ratio.toFixed(2),
      row.ratioToFastest.toFixed(2),
      (row.right.slowestSessionMs / row.right.fastestSessionMs).toFixed(2),
      ...both(({ loadMs }) => loadMs.toFixed(0)),
      ...both(({ peakMemoryBytes }) => (peakMemoryBytes / 2 ** 20).toFixed(0)),
      row.difference.toExponential(1),
      row.largest.toPrecision(3),
      ...both(({ control }) => control.toFixed(2)),
    ];
  });
  return aligned(head, body, 1);
}

function ms(value) {
  return value.toFixed(value < 10 ? 3 : value < 100 ? 2 : 1);
}
