// From rounds to ratios. Only processes of one round are ever divided by each other.
import { median } from './statistics.mjs';

const TOLERANCE = 1e-4;

/** @returns one row per metric */
export function compare(workload, metrics, rounds) {
  return Object.entries(metrics).map(([metric, meaning]) => {
    const time = (result) => result.metrics[metric].medianUs;
    const side = (name) => median(rounds.flatMap((round) => round[name].map(time)));
    // Above 1: the left engine is faster.
    const pairs = rounds.flatMap(({ left, right }) => left.map((result, i) => time(right[i]) / time(result)));
    const control = (name) => median(rounds.map((round) => time(round[name][1]) / time(round[name][0])));
    return {
      workload,
      metric,
      meaning,
      leftUs: side('left'),
      rightUs: side('right'),
      ratio: median(pairs),
      lowestRatio: Math.min(...pairs),
      highestRatio: Math.max(...pairs),
      leftControl: control('left'),
      rightControl: control('right'),
    };
  });
}

/** Throws unless all processes computed the same thing: speed counts only for right answers. */
export function agree(workload, rounds) {
  const answers = rounds.flatMap(({ left, right }) => [...left, ...right]).flatMap(({ answers }) => (answers ? [answers] : []));
  for (const other of answers.slice(1)) {
    const furthest = Math.max(...other.map((value, i) => Math.abs(value - answers[0][i])));
    if (other.length !== answers[0].length || !(furthest <= TOLERANCE)) {
      throw new Error(`${workload}: the engines disagree, by up to ${furthest}`);
    }
  }
}
