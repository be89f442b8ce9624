'use strict';

// The graph of the steps. The more time a step takes, the hotter it looks.

const { byId, element, explain, shape } = require('./dom.js');
const { share, time } = require('./format.js');
const { layout } = require('./layout.js');

const SIZE = { width: 176, height: 42, gapX: 22, gapY: 30 };
const MARGIN = 16;
const LONGEST_NAME = 22;
const SCALES = { least: 0.05, most: 3 };

const cut = (text) => (text.length > LONGEST_NAME ? `${text.slice(0, LONGEST_NAME - 1)}…` : text);

/** A curve through points, which leaves and arrives downwards. */
function curve(points) {
  const [[x, y], ...rest] = points;
  let path = `M${x.toFixed(1)} ${(y + SIZE.height / 2).toFixed(1)}`;
  let from = [x, y + SIZE.height / 2];
  rest.forEach(([toX, centre], i) => {
    const toY = i === rest.length - 1 ? centre - SIZE.height / 2 : centre;
    const bend = (toY - from[1]) / 2;
    path += `C${from[0].toFixed(1)} ${(from[1] + bend).toFixed(1)} ${toX.toFixed(1)} ${(toY - bend).toFixed(1)} ${toX.toFixed(1)} ${toY.toFixed(1)}`;
    from = [toX, toY];
  });
  return path;
}

class Graph {
  #model;
  #scroll = byId('graph');
  #svg;
  #size;
  #places;
  #scale = 1;

  constructor(model) {
    this.#model = model;
    const { width, height, nodes, edges } = layout(model.steps.map(({ sources }) => sources), SIZE, model.steps.map(({ part }) => part));
    this.#places = nodes;
    this.#size = [width + 2 * MARGIN, height + 2 * MARGIN];
    const hottest = Math.max(...model.steps.map(({ ms }) => ms));
    this.#svg = shape('svg', { viewBox: `${-MARGIN} ${-MARGIN} ${this.#size.join(' ')}`, role: 'img', 'aria-label': 'Graph of the steps' });
    this.#svg.append(...edges.map((edge) => this.#edge(edge)), ...nodes.map((place, i) => this.#node(place, i, hottest)));
    this.#scroll.append(this.#svg);
    byId('graph-note').append(element('i', { class: 'heat' }), `up to ${time(hottest)}`);
    this.#addTools();
    this.#zoom(1);
    this.#show(model.hottest);
    model.onChoose((chosen, from) => from !== 'graph' && this.#show(chosen));
  }

  #edge({ from, to, points }) {
    const path = shape('path', { class: 'edge', d: curve(points) });
    this.#model.onChoose((chosen) => path.classList.toggle('chosen', chosen === from || chosen === to));
    return path;
  }

  #node({ x, y }, i, hottest) {
    const { steps, colors, stepMs } = this.#model;
    const { operators, label, shapes, ms } = steps[i];
    const heat = Math.sqrt(ms / (hottest || 1));
    const [left, top] = [x - SIZE.width / 2, y - SIZE.height / 2];
    const text = (at, content, kind) => shape('text', { x: left + 14, y: top + at, class: kind }, content);
    const node = shape(
      'g',
      { class: 'node', style: { '--heat': `${(100 * heat).toFixed(1)}%`, '--color': colors[i] } },
      shape('rect', { class: 'box', x: left, y: top, width: SIZE.width, height: SIZE.height, rx: 6 }),
      shape('rect', { class: 'mark', x: left + 4, y: top + 6, width: 4, height: SIZE.height - 12, rx: 2 }),
      text(17, cut(operators), 'name'),
      text(33, `${time(ms)} · ${share(ms, stepMs)}`, 'small'),
    );
    node.addEventListener('click', () => this.#model.choose(i, 'graph'));
    explain(node, () => [`${i + 1}. ${operators}`, ...(label ? [label] : []), shapes, `${time(ms)}, ${share(ms, stepMs)} of the steps`]);
    this.#model.onChoose((chosen) => node.classList.toggle('chosen', chosen === i));
    return node;
  }

  #addTools() {
    const button = (text, label, work) => element('button', { type: 'button', 'aria-label': label, onclick: work }, text);
    byId('graph-tools').append(
      button('−', 'Zoom out', () => this.#zoom(this.#scale / 1.4)),
      button('+', 'Zoom in', () => this.#zoom(this.#scale * 1.4)),
      button('All', 'Show the whole graph', () => this.#zoom(Math.min(this.#scroll.clientWidth / this.#size[0], this.#scroll.clientHeight / this.#size[1], 1))),
      button('Hottest', 'Choose the step that takes most', () => this.#model.choose(this.#model.hottest)),
    );
    let last;
    this.#scroll.addEventListener('pointerdown', ({ clientX, clientY }) => (last = [clientX, clientY]));
    globalThis.addEventListener('pointerup', () => {
      last = undefined;
      this.#scroll.classList.remove('dragged');
    });
    this.#scroll.addEventListener('pointermove', ({ clientX, clientY, buttons }) => {
      if (last === undefined || buttons === 0) return;
      this.#scroll.classList.add('dragged');
      this.#scroll.scrollBy(last[0] - clientX, last[1] - clientY);
      last = [clientX, clientY];
    });
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      this.#zoom(this.#scale * 2 ** (-event.deltaY / 300));
    };
    this.#scroll.addEventListener('wheel', wheel, { passive: false });
  }

  /** Keeps the middle in the middle. */
  #zoom(scale) {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.#scroll;
    const [x, y] = [(scrollLeft + clientWidth / 2) / this.#scale, (scrollTop + clientHeight / 2) / this.#scale];
    this.#scale = Math.min(SCALES.most, Math.max(SCALES.least, scale));
    this.#svg.setAttribute('width', this.#size[0] * this.#scale);
    this.#svg.setAttribute('height', this.#size[1] * this.#scale);
    this.#scroll.scrollTo(x * this.#scale - clientWidth / 2, y * this.#scale - clientHeight / 2);
  }

  #show(i) {
    const { clientWidth, clientHeight } = this.#scroll;
    const { x, y } = this.#places[i];
    this.#scroll.scrollTo((x + MARGIN) * this.#scale - clientWidth / 2, (y + MARGIN) * this.#scale - clientHeight / 2);
  }
}

module.exports = { Graph };
