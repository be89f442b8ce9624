'use strict';

// Shows the profile that is in the page.

/* global document, matchMedia */

const { byId, element } = require('./dom.js');
const { Flame } = require('./flame.js');
const { count, digits, share, time } = require('./format.js');
const { Graph } = require('./graph.js');
const { showDetails, showOperators, showSteps } = require('./tables.js');

/** So many operators have colors of their own. */
const COLORS = 7;

/** What the parts of the page share: the profile, and which step is chosen. */
function modelOf(profile) {
  const steps = profile.steps.map((step, number) => {
    const [operators] = step.text.split(' [', 1);
    const shapes = step.text.slice(operators.length + 1, step.label === '' ? undefined : -(step.label.length + 3));
    const search = `${step.text} ${step.implementation} ${step.dataType}`.toLowerCase();
    return { ...step, number, operators, shapes, search, readers: [] };
  });
  for (const { number, sources } of steps) for (const source of sources) steps[source].readers.push(number);
  const ranks = new Map(profile.operators.map(({ operator }, i) => [operator, i]));
  const colorOf = (operator) => `var(--c${Math.min(ranks.get(operator), COLORS)})`;
  const listeners = [];
  return {
    ...profile,
    steps,
    colorOf,
    colors: steps.map(({ operator }) => colorOf(operator)),
    hottest: steps.reduce((best, { ms }, i) => (ms > steps[best].ms ? i : best), 0),
    chosen: -1,
    onChoose: (listener) => listeners.push(listener),
    choose(step, from) {
      this.chosen = step;
      for (const listener of listeners) listener(step, from);
    },
  };
}

function showSummary({ model, about, runs, runMs, stepMs, steps, peak, left, run }) {
  document.title = `${model} – profile`;
  byId('title').textContent = model;
  byId('about').textContent = about;
  byId('flame-note').textContent = `the run of ${runs} that took the median time; Ctrl and the wheel zoom`;
  byId('steps-note').textContent = left > 0 ? `the first ${steps.length} of ${steps.length + left}` : `${steps.length}, mean times of ${runs} runs`;
  const work = steps.reduce((sum, { multiplications }) => sum + multiplications, 0);
  const tile = (name, value, note) => element('div', { class: 'tile' }, element('div', { class: 'name' }, name), element('b', {}, value), element('span', {}, note));
  const tiles = [
    tile('A run', time(runMs), `mean of ${runs}; the one shown took ${time(run.ms)}`),
    tile('Steps', time(stepMs), `${share(stepMs, runMs)} of the run`),
    tile('Around the steps', time(runMs - stepMs), 'calls, queues, copies'),
  ];
  if (work > 0) tiles.push(tile('Work', `${count(2 * work, 'FLOP')}`, `${digits((2 * work) / stepMs / 1e6)} GFLOP/s in the steps`));
  if (peak) tiles.push(tile('This machine', `${digits(peak.gflops)} GFLOP/s`, `float32, and ${digits(peak.gbs)} GB/s of a copy, as measured`));
  byId('tiles').append(...tiles);
}

function showLegend({ operators, colorOf, stepMs }) {
  const entry = (color, name) => element('span', {}, element('i', { class: 'swatch', style: { '--color': color } }), name);
  const own = operators.slice(0, COLORS).map(({ operator, ms }) => entry(colorOf(operator), `${operator} ${share(ms, stepMs)}`));
  const rest = operators.slice(COLORS).reduce((sum, { ms }) => sum + ms, 0);
  byId('legend').append(...own, ...(operators.length > COLORS ? [entry(`var(--c${COLORS})`, `others ${share(rest, stepMs)}`)] : []));
}

/** The theme of the system, until somebody switches. */
function followTheme() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const root = document.documentElement;
  const follow = () => (root.dataset.theme = dark.matches ? 'dark' : 'light');
  follow();
  dark.addEventListener('change', follow);
  byId('theme').addEventListener('click', () => (root.dataset.theme = root.dataset.theme === 'dark' ? 'light' : 'dark'));
}

followTheme();
const model = modelOf(JSON.parse(byId('data').textContent));
showSummary(model);
// All results may be known without a step.
if (model.steps.length > 0) {
  showLegend(model);
  new Flame(model);
  new Graph(model);
  showOperators(model);
  showSteps(model);
  showDetails(model);
  model.choose(model.hottest, 'start');
}
