'use strict';

// The tables by operator and by step, and what is known of the step that is chosen.

const { byId, element } = require('./dom.js');
const { count, digits, share, time } = require('./format.js');

/** What is faster than memory was in the caches. */
const withinMemory = (gbs, peak) => (gbs <= peak?.gbs ? peak.gbs : undefined);

const number = (text) => ({ class: 'number', content: [text] });
/** A part of something, as a bar and a number. */
function part(of, whole, color) {
  const bar = element('i', { style: { width: `${(70 * of) / (whole || 1)}px`, ...(color && { '--color': color }) } });
  return { class: 'share', content: [element('div', {}, bar, share(of, whole))] };
}

/**
 * A table that is sorted by a click on a head. A column is `{name, number, value: (row) => any, cell: (row) => {class, content}}`.
 * @returns {(rows: any[]) => void} shows rows
 */
function table(parent, columns, onRow = () => {}) {
  let [sorted, ascending, shown] = [-1, false, []];
  const body = element('tbody');
  const heads = columns.map(({ name, number: isNumber }, i) => {
    const sort = () => {
      [ascending, sorted] = [sorted === i ? !ascending : !isNumber, i];
      show(shown);
    };
    return element('th', { class: isNumber ? 'number' : undefined, scope: 'col' }, element('button', { type: 'button', onclick: sort }, name));
  });
  const show = (rows) => {
    shown = rows;
    heads.forEach((head, i) => {
      if (i === sorted) head.setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
      else head.removeAttribute('aria-sort');
    });
    const value = columns[sorted]?.value;
    const compare = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (ascending ? 1 : -1);
    const list = value === undefined ? rows : [...rows].sort(compare);
    body.replaceChildren(...list.map((row) => rowOf(row)));
  };
  const rowOf = (row) => {
    const cells = columns.map(({ cell }) => cell(row)).map(({ class: kind, content }) => element('td', { class: kind }, ...content));
    const line = element('tr', {}, ...cells);
    onRow(line, row);
    return line;
  };
  parent.append(element('table', {}, element('thead', {}, element('tr', {}, ...heads)), body));
  return show;
}

/** GFLOP/s or GB/s, beside what the machine can do. */
function rate(value, peak) {
  if (!(value > 0)) return { class: 'number faint', content: ['–'] };
  const beside = peak > 0 ? [element('span', { class: 'faint' }, ` ${share(value, peak)}`)] : [];
  return { class: 'number', content: [digits(value), ...beside] };
}

function showOperators({ operators, stepMs, colorOf, peak }) {
  const columns = [
    { name: 'Operator', value: ({ operator }) => operator, cell: ({ operator }) => ({ content: [element('i', { class: 'swatch', style: { '--color': colorOf(operator) } }), operator] }) },
    { name: 'Steps', number: true, value: (row) => row.count, cell: (row) => number(`${row.count}`) },
    { name: 'Time', number: true, value: ({ ms }) => ms, cell: ({ ms }) => number(time(ms)) },
    { name: 'Share', value: ({ ms }) => ms, cell: ({ ms, operator }) => part(ms, stepMs, colorOf(operator)) },
    { name: 'GFLOP/s', number: true, value: ({ gflops }) => gflops, cell: (row) => rate(row.gflops, row.isFloat ? peak?.gflops : undefined) },
    { name: 'GB/s', number: true, value: ({ gbs }) => gbs, cell: ({ gbs }) => rate(gbs, withinMemory(gbs, peak)) },
  ];
  table(byId('operators'), columns)(operators);
}

function showSteps(model) {
  const { steps, stepMs, colors, peak } = model;
  const lines = new Map();
  const step = (row) => {
    const name = row.label ? [element('br'), element('span', { class: 'faint' }, row.label)] : [];
    return { class: 'wide', content: [element('i', { class: 'swatch', style: { '--color': colors[row.number] } }), row.operators, ' ', element('span', { class: 'shapes faint' }, row.shapes), ...name] };
  };
  const columns = [
    { name: '#', number: true, value: (row) => row.number, cell: (row) => number(`${row.number + 1}`) },
    { name: 'Step', value: ({ operators }) => operators, cell: step },
    { name: 'Implementation', value: ({ implementation }) => implementation, cell: ({ implementation }) => ({ content: [element('code', {}, implementation)] }) },
    { name: 'Time', number: true, value: ({ ms }) => ms, cell: ({ ms }) => number(time(ms)) },
    { name: 'Share', value: ({ ms }) => ms, cell: ({ ms, number: i }) => part(ms, stepMs, colors[i]) },
    { name: 'GFLOP/s', number: true, value: ({ gflops }) => gflops, cell: (row) => rate(row.gflops, row.isFloat ? peak?.gflops : undefined) },
    { name: 'GB/s', number: true, value: ({ gbs }) => gbs, cell: ({ gbs }) => rate(gbs, withinMemory(gbs, peak)) },
  ];
  const show = table(byId('steps'), columns, (line, row) => {
    lines.set(row.number, line);
    line.classList.toggle('chosen', model.chosen === row.number);
    line.addEventListener('click', () => model.choose(row.number, 'table'));
  });
  show(steps);
  model.onChoose((chosen) => lines.forEach((line, i) => line.classList.toggle('chosen', i === chosen)));
  byId('filter').addEventListener('input', ({ target }) => {
    const words = target.value.toLowerCase().split(/\s+/);
    lines.clear();
    show(steps.filter(({ search }) => words.every((word) => search.includes(word))));
  });
}

/** A rate with a bar that is full where the machine is. */
function meter(value, unit, peak) {
  if (!(value > 0)) return ['–'];
  if (!(peak > 0)) return [`${digits(value)} ${unit}`];
  const bar = element('div', { class: 'meter' }, element('i', { style: { width: `${Math.min(100, (100 * value) / peak)}%` } }));
  return [`${digits(value)} of ${digits(peak)} ${unit}`, bar];
}

function showDetails(model) {
  const { steps, stepMs, peak } = model;
  const link = (i) => element('button', { type: 'button', onclick: () => model.choose(i) }, `${i + 1}. ${steps[i].operators}`);
  const links = (list) => (list.length > 0 ? list.map(link) : ['–']);
  model.onChoose((chosen) => {
    const { operators, label, shapes, implementation, dataType, ms, leastMs, multiplications, bytes, gflops, gbs, isFloat, sources, readers } = steps[chosen];
    const rows = [
      ['Operators', [operators]],
      ['Name', [label || '–']],
      ['Shapes', [element('span', { class: 'shapes' }, shapes)]],
      ['Data type', [dataType]],
      ['Implementation', [element('code', {}, implementation)]],
      ['Time', [`${time(ms)}, ${share(ms, stepMs)} of the steps; at best ${time(leastMs)}`]],
      ['Work', [multiplications > 0 ? `${count(multiplications, '')} multiplications, ${count(bytes, 'B')}` : count(bytes, 'B')]],
      ['Computing', meter(gflops, 'GFLOP/s', isFloat ? peak?.gflops : undefined)],
      ['Memory', meter(gbs, 'GB/s', withinMemory(gbs, peak))],
      ['Reads', [element('div', { class: 'links' }, ...links(sources))]],
      ['Read by', [element('div', { class: 'links' }, ...links(readers))]],
    ];
    byId('details-title').textContent = `Step ${chosen + 1} of ${steps.length}`;
    byId('details').replaceChildren(element('dl', {}, ...rows.flatMap(([name, content]) => [element('dt', {}, name), element('dd', {}, ...content)])));
  });
  const move = (text, label, by) => element('button', { type: 'button', 'aria-label': label, onclick: () => model.choose((model.chosen + by + steps.length) % steps.length) }, text);
  byId('details-tools').append(move('‹', 'The step before', -1), move('›', 'The next step', 1));
}

module.exports = { showDetails, showOperators, showSteps };
