'use strict';

// The parts of the page that need no browser.

const { framesOf } = require('../../lib/command-line/report/page/scopes.js');
const { layout } = require('../../lib/command-line/report/page/layout.js');
const format = require('../../lib/command-line/report/page/format.js');

const SIZE = { width: 100, height: 40, gapX: 20, gapY: 30 };

test('a chain is straight, and the edge around it passes beside it', () => {
  const { nodes, edges } = layout([[], [0], [1], [2], [0, 3]], SIZE);
  expect(nodes.map(({ y }) => y)).toEqual([20, 90, 160, 230, 300]);
  expect(new Set(nodes.slice(1, 4).map(({ x }) => x)).size).toBe(1);
  const { points } = edges.find(({ from, to }) => from === 0 && to === 4);
  expect(points).toHaveLength(5);
  for (const [x] of points.slice(1, 4)) expect(Math.abs(x - nodes[1].x)).toBeGreaterThanOrEqual(70);
});

test('what has no sources stands above the first that reads it', () => {
  const { nodes } = layout([[], [0], [1], [], [2, 3]], SIZE);
  expect(nodes[3].y).toBe(nodes[2].y);
});

test('a part of the model stands below the parts before', () => {
  const { nodes } = layout([[], [0], [], [2], []], SIZE, [0, 0, 1, 1, 2]);
  expect(nodes.map(({ y }) => y)).toEqual([20, 90, 160, 230, 300]);
});

test('nodes of random graphs are apart, below their sources, and within the size', () => {
  let seed = 1;
  const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
  for (let round = 0; round < 60; round++) {
    const sources = Array.from({ length: 1 + random(40) }, (_, i) => [...new Set(Array.from({ length: random(4) }, () => random(Math.max(i, 1))))].filter((source) => source < i));
    const { nodes, edges, width, height } = layout(sources, SIZE);
    expect(edges.map(({ from, to }) => `${from} ${to}`).sort()).toEqual(sources.flatMap((list, i) => list.map((source) => `${source} ${i}`)).sort());
    for (const { points } of edges) points.slice(1).forEach(([, y], i) => expect(y - points[i][1]).toBe(70));
    nodes.forEach(({ x, y }, i) => {
      expect(x >= 49.99 && x <= width - 49.99 && y >= 20 && y <= height - 20).toBe(true);
      for (const other of nodes.slice(i + 1)) if (other.y === y) expect(Math.abs(other.x - x)).toBeGreaterThan(119.99);
    });
  }
});

test('scopes are frames, and a step without a name is in what its neighbours share', () => {
  const frames = framesOf(['/a/b/Conv', '', '/a/c/Relu', '', '/d/Add', 'MatMul_3', '/d/Mul']);
  const text = frames.map((row) => row.map(({ name, first, last }) => `${name} ${first}-${last}`));
  expect(text).toEqual([['a 0-2', 'd 4-4', 'd 6-6'], ['b 0-0', 'c 2-2']]);
  expect(framesOf(['', 'x'])).toEqual([]);
});

test('numbers have three digits that count', () => {
  expect([0, 0.01234, 1.234, 56.78, 1234].map(format.time)).toEqual(['0', '12.3 µs', '1.23 ms', '56.8 ms', '1.23 s']);
  expect([format.count(1.5e9, 'B'), format.share(1, 8), format.share(1, 16), format.share(0, 0)]).toEqual(['1.50 GB', '13 %', '6.3 %', '0.0 %']);
  expect([format.tick(1, 10), format.tick(35, 10), format.tick(0.013, 6)]).toEqual([0.1, 5, 0.005]);
});
