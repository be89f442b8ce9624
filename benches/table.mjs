import { aligned } from './aligned.mjs';

// The comparison as text for a terminal.
export function table(rows, { left, right }) {
  const head = ['workload', 'metric', `${left} µs`, `${right} µs`, 'ratio', 'lowest', 'highest', 'control left', 'control right'];
  const body = rows.map((row) => [
    row.workload,
    row.metric,
    time(row.leftUs),
    time(row.rightUs),
    row.ratio.toFixed(2),
    row.lowestRatio.toFixed(2),
    row.highestRatio.toFixed(2),
    row.leftControl.toFixed(2),
    row.rightControl.toFixed(2),
  ]);
  return aligned(head, body, 2);
}

function time(us) {
  return us.toFixed(us < 10 ? 2 : us < 1000 ? 1 : 0);
}
