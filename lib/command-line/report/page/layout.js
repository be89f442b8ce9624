'use strict';

// A layered layout: each step below the steps whose results it reads. An edge over several layers goes through a point in each of them, and
// edges from the same step share these points.

// The last one follows what is above, so chains are straight.
const SWEEPS = { order: 12, places: 13 };

/** Whose results each step is read by. */
function readersOf(sources) {
  const readers = sources.map(() => []);
  sources.forEach((list, i) => list.forEach((source) => readers[source].push(i)));
  return readers;
}

/**
 * The layers of steps: as far up as their sources allow, and below all of the parts before. One without sources is just above the first of its
 * readers.
 */
function layersOf(sources, readers, parts) {
  const layers = [];
  const tops = new Map();
  let lowest = -1;
  sources.forEach((list, i) => {
    if (!tops.has(parts[i])) tops.set(parts[i], lowest + 1);
    layers[i] = list.length === 0 ? tops.get(parts[i]) : 1 + Math.max(...list.map((source) => layers[source]));
    lowest = Math.max(lowest, layers[i]);
  });
  sources.forEach((list, i) => {
    if (list.length === 0 && readers[i].length > 0) layers[i] = Math.min(...readers[i].map((reader) => layers[reader])) - 1;
  });
  return layers;
}

/** Nodes and points, layer by layer, with what is linked to them above and below. */
function linked(sources, parts) {
  const readers = readersOf(sources);
  const layers = layersOf(sources, readers, parts);
  const nodes = layers.map((layer, step) => ({ step, layer, up: [], down: [], x: 0 }));
  const rows = [];
  const place = (node) => (rows[node.layer] ??= []).push(node);
  const link = (above, below) => {
    above.down.push(below);
    below.up.push(above);
  };
  nodes.forEach((node, step) => {
    place(node);
    const lowest = Math.max(...readers[step].map((reader) => layers[reader]));
    let above = node;
    for (let layer = node.layer + 1; layer <= lowest; layer++) {
      for (const reader of readers[step]) if (layers[reader] === layer) link(above, nodes[reader]);
      if (layer === lowest) break;
      const point = { step: -1, layer, up: [], down: [], x: 0 };
      link(above, point);
      place(point);
      above = point;
    }
  });
  return { nodes, rows: Array.from(rows, (row) => row ?? []) };
}

const mean = (list, of) => list.reduce((sum, one) => sum + of(one), 0) / list.length;

/** Sorts each layer by the places of what is linked to it above, then below, several times: fewer edges cross. */
function order(rows) {
  const number = (row) => row.forEach((node, i) => (node.at = i));
  rows.forEach(number);
  for (let sweep = 0; sweep < SWEEPS.order; sweep++) {
    const [side, list] = sweep % 2 === 0 ? ['up', rows] : ['down', [...rows].reverse()];
    for (const row of list) {
      for (const node of row) node.target = node[side].length > 0 ? mean(node[side], ({ at }) => at) : node.at;
      row.sort((a, b) => a.target - b.target);
      number(row);
    }
  }
}

/**
 * Places in ascending order, at least so far apart, as near to the targets as possible by least squares: neighbours whose targets contradict each
 * other form a block, which lies at the mean of them.
 */
function spread(row, apart) {
  const blocks = [];
  let offset = 0;
  row.forEach((node, i) => {
    if (i > 0) offset += apart(row[i - 1], node);
    node.offset = offset;
    const weight = node.step < 0 ? 4 : 1;
    blocks.push({ sum: weight * (node.target - offset), weight, count: 1 });
    while (blocks.length > 1) {
      const [before, last] = blocks.slice(-2);
      if (before.sum / before.weight <= last.sum / last.weight) break;
      blocks.splice(-2, 2, { sum: before.sum + last.sum, weight: before.weight + last.weight, count: before.count + last.count });
    }
  });
  let i = 0;
  for (const { sum, weight, count } of blocks) for (let n = 0; n < count; n++, i++) row[i].x = sum / weight + row[i].offset;
}

/**
 * @param {number[][]} sources the numbers of the steps that each step reads results of; smaller ones
 * @param {{width: number, height: number, gapX: number, gapY: number}} size of nodes
 * @param {number[]} [parts] which part of the model each step is of
 * @returns {{width: number, height: number, nodes: {x: number, y: number}[], edges: {from: number, to: number, points: number[][]}[]}} centres
 *   of nodes, and the points that edges go through
 */
function layout(sources, { width, height, gapX, gapY }, parts = sources.map(() => 0)) {
  const { nodes, rows } = linked(sources, parts);
  order(rows);
  const apart = (a, b) => gapX + ((a.step < 0 ? 0 : width) + (b.step < 0 ? 0 : width)) / 2;
  for (const row of rows) spread(row.map((node) => Object.assign(node, { target: 0 })), apart);
  for (let sweep = 0; sweep < SWEEPS.places; sweep++) {
    for (const row of sweep % 2 === 0 ? rows : [...rows].reverse()) {
      for (const node of row) {
        const side = sweep % 2 === 0 ? node.up : node.down;
        node.target = side.length > 0 ? mean(side, ({ x }) => x) : node.x;
      }
      spread(row, apart);
    }
  }
  const all = rows.flat();
  const left = Math.min(...all.map(({ x }) => x)) - width / 2;
  const right = Math.max(...all.map(({ x }) => x)) + width / 2;
  const y = ({ layer }) => height / 2 + layer * (height + gapY);
  const point = (node) => [node.x - left, y(node)];
  return {
    width: right - left,
    height: y({ layer: rows.length - 1 }) + height / 2,
    nodes: nodes.map((node) => ({ x: node.x - left, y: y(node) })),
    edges: nodes.flatMap((node) => edgesTo(node, point)),
  };
}

/** The edges that end in a node, from where they begin. */
function edgesTo(node, point) {
  return node.up.map((above) => {
    const points = [point(node)];
    let at = above;
    for (; at.step < 0; [at] = at.up) points.unshift(point(at));
    points.unshift(point(at));
    return { from: at.step, to: node.step, points };
  });
}

module.exports = { layout };
