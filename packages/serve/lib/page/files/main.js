// The page: asks the server for its state, and runs models by the same requests as other clients. Texts from the server become text nodes.

const $ = (id) => document.getElementById(id);
let token = '';
let known = '';

async function ask(url, options = {}) {
  const headers = { ...options.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
  const response = await fetch(url, { ...options, headers });
  if (response.status === 401) $('login').hidden = false;
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(body.error?.message ?? body.error ?? `status ${response.status}`);
  return body;
}

const element = (name, attributes = {}, ...children) => {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
};
const mebibytes = (bytes) => `${(bytes / 2 ** 20).toFixed(bytes < 2 ** 24 ? 1 : 0)} MiB`;
/** States of the last seconds, the latest last. */
const states = [];
const KEPT = 60;
/** Seconds over which figures of now are taken. */
const NOW = 10;
const mean = ({ count, ns }) => (count === 0 ? '–' : `${(ns / count / 1e6).toFixed(2)} ms`);

/** What a duration of a model has gained in the last seconds. */
function recent(name, version, key) {
  const latest = states.at(-1);
  const before = states.find(({ at }) => latest.at - at <= NOW * 1000) ?? latest;
  const of = (state) => state.models.find((model) => model.name === name && model.version === version)?.[key] ?? { count: 0, ns: 0 };
  const [from, to] = [of(before), of(latest)];
  return { count: to.count - from.count, ns: to.ns - from.ns, seconds: Math.max((latest.at - before.at) / 1000, 1) };
}

const perSecond = ({ count, seconds }) => (count / seconds).toFixed(count < 10 * seconds ? 1 : 0);

/** A line of the last minute. */
function chart(label, values) {
  const most = Math.max(1, ...values);
  const points = values.map((value, i) => `${((KEPT - values.length + i) / (KEPT - 1)) * 100},${28 - (value / most) * 26}`).join(' ');
  const svg = $('chart').content.firstElementChild.cloneNode(true);
  svg.setAttribute('aria-label', `${label} in the last minute, ${most.toFixed(0)} at most`);
  svg.firstElementChild.setAttribute('points', points);
  return svg;
}

/** Requests of all models in a second, for each of the kept seconds. */
function rates() {
  const total = ({ models }) => models.reduce((sum, { success, fail }) => sum + success.count + fail.count, 0);
  return states.slice(1).map((state, i) => Math.max(0, ((total(state) - total(states[i])) * 1000) / (state.at - states[i].at)));
}

function showLoad({ running, limit, memory, process }) {
  const { graphs, scratch, caches } = memory;
  const each = rates();
  const rate = each.slice(-NOW).reduce((sum, one) => sum + one, 0) / Math.max(1, Math.min(NOW, each.length));
  const values = {
    'Requests under way': [`${running} of ${limit}`, chart('Requests under way', states.map((state) => state.running))],
    'Requests a second': [rate.toFixed(rate < 10 ? 1 : 0), chart('Requests a second', each)],
    Weights: [mebibytes(graphs)],
    'Scratch memory': [mebibytes(scratch)],
    Caches: [mebibytes(caches)],
    Process: [mebibytes(process), chart('MiB', states.map((state) => state.process / 2 ** 20))],
  };
  $('load').replaceChildren(...Object.entries(values).map(([name, [value, ...more]]) => element('div', {}, element('dt', {}, name), element('dd', {}, value, ...more))));
}

function showModels(models) {
  $('models').replaceChildren(
    ...models.map(({ name, version, kind, memory, success, fail, infer, queue, pending, executions }) => {
      const size = executions > 0 ? (success.count / executions).toFixed(2) : '–';
      const now = recent(name, version, 'success');
      const cells = [version, kind, success.count, fail.count, perSecond(now), mean(now), mean(infer), mean(queue), pending, size, memory === undefined ? '–' : mebibytes(memory)];
      return element('tr', {}, element('th', { scope: 'row' }, name), ...cells.map((cell) => element('td', {}, String(cell))));
    }),
  );
  const names = models.map(({ name, version, kind }) => JSON.stringify([name, version, kind]));
  if (names.join() === known) return;
  known = names.join();
  const chosen = $('model').value;
  $('model').replaceChildren(...models.map(({ name, version }, i) => element('option', { value: names[i] }, `${name}, version ${version}`)));
  if (names.includes(chosen)) $('model').value = chosen;
  void showInputs();
}

async function refresh() {
  try {
    const state = { ...(await ask('/page/state')), at: performance.now() };
    states.push(state);
    if (states.length > KEPT) states.shift();
    $('status').textContent = state.ready ? 'ready' : 'not ready';
    $('status').className = state.ready ? '' : 'bad';
    showLoad(state);
    showModels(state.models);
  } catch (error) {
    $('status').textContent = error.message;
    $('status').className = 'bad';
  }
  setTimeout(refresh, 1000);
}

const chosenModel = () => JSON.parse($('model').value || '[]');
const pathOf = (name, version) => `/v2/models/${encodeURIComponent(name)}/versions/${version}`;

/** A field with its label. */
function field(id, label, made) {
  return element('div', {}, element('label', { htmlFor: id }, label), Object.assign(made, { id }));
}

/** How often the form was asked for: what comes late for an earlier choice must not replace what was typed since. */
let asked = 0;
/** The choice that the form is for: what was typed there stays when it is made again. */
let shown;

async function showInputs() {
  const [name, version, kind] = chosenModel();
  const mine = ++asked;
  const choice = $('model').value;
  if (name === undefined || choice === shown) return;
  if (kind !== 'tensors') {
    const label = { generate: 'A message', embed: 'A text', rerank: 'A question, then a document in each line' }[kind];
    $('inputs').replaceChildren(field('text', label, element('textarea', { required: true, value: 'Hello!' })));
    shown = choice;
    return;
  }
  const { inputs } = await ask(pathOf(name, version));
  if (mine !== asked) return;
  shown = choice;
  $('inputs').replaceChildren(
    ...inputs.map(({ name: input, datatype, shape }, i) => {
      const sizes = shape.map((size) => (size === -1 ? 1 : size));
      const set = element('fieldset', {}, element('legend', {}, `${input}: ${datatype}[${shape.join(', ').replaceAll('-1', '?')}]`));
      const data = element('textarea', { required: true, value: datatype === 'BOOL' ? 'false' : '0' });
      set.append(field(`shape-${i}`, 'Shape', element('input', { value: sizes.join(', '), pattern: '[0-9, ]*' })));
      set.append(field(`data-${i}`, 'Elements, separated by commas; they are repeated until the shape is full', data));
      if (shape.length === 4 && /^FP/.test(datatype)) set.append(picture(i));
      Object.assign(set.dataset, { input, datatype, number: i });
      return set;
    }),
  );
}

/** A picture as planes of red, green and blue from 0 to 1, in the size of the shape. */
function picture(i) {
  const file = element('input', { type: 'file', accept: 'image/*' });
  file.addEventListener('change', async () => {
    const bitmap = await createImageBitmap(file.files[0]);
    const shape = $(`shape-${i}`);
    const [rows, planes, height, width] = shape.value.split(',').map(Number);
    const last = planes > 4;
    const [h, w] = [last ? planes : height, last ? height : width].map((size) => (size > 1 ? size : 224));
    const canvas = element('canvas', { width: w, height: h }).getContext('2d');
    canvas.drawImage(bitmap, 0, 0, w, h);
    const { data } = canvas.getImageData(0, 0, w, h);
    const at = (pixel, plane) => (data[pixel * 4 + plane] / 255).toFixed(4);
    const values = [];
    if (last) for (let pixel = 0; pixel < w * h; pixel++) for (let plane = 0; plane < 3; plane++) values.push(at(pixel, plane));
    else for (let plane = 0; plane < 3; plane++) for (let pixel = 0; pixel < w * h; pixel++) values.push(at(pixel, plane));
    shape.value = (last ? [rows, h, w, 3] : [rows, 3, h, w]).join(', ');
    $(`data-${i}`).value = values.join(', ');
  });
  return field(`picture-${i}`, 'Or a picture (red, green and blue from 0 to 1)', file);
}

function readInput(set) {
  const { input, datatype, number } = set.dataset;
  const shape = $(`shape-${number}`).value.split(',').filter((text) => text.trim() !== '').map(Number);
  const count = shape.reduce((all, size) => all * size, 1);
  const given = $(`data-${number}`).value.split(',').map((text) => text.trim()).filter((text) => text !== '');
  const values = given.map((text) => (datatype === 'BOOL' ? text === 'true' || text === '1' : /64$/.test(datatype) && datatype !== 'FP64' ? text : Number(text)));
  return { name: input, datatype, shape, data: Array.from({ length: count }, (_, i) => values[i % values.length]) };
}

/** The request for a model, by its kind. */
function requestFor([name, version, kind]) {
  const text = $('text')?.value;
  const [query, ...documents] = (text ?? '').split('\n');
  const requests = {
    generate: ['/v1/chat/completions', { model: name, messages: [{ role: 'user', content: text }], max_tokens: 128 }],
    embed: ['/v1/embeddings', { model: name, input: text }],
    rerank: ['/rerank', { model: name, query, documents }],
  };
  return requests[kind] ?? [`${pathOf(name, version)}/infer`, { inputs: [...document.querySelectorAll('#inputs fieldset')].map(readInput) }];
}

const short = (_key, value) => (Array.isArray(value) && value.length > 64 && typeof value[0] !== 'object' ? [...value.slice(0, 64), `… ${value.length} elements`] : value);

/** Lists of numbers in a line. */
const compact = (text) => text.replace(/\[[^[\]{}]*\]/g, (list) => list.replace(/\s+/g, ' '));

async function runModel(event) {
  event.preventDefault();
  const began = performance.now();
  $('run').disabled = true;
  try {
    const [url, body] = requestFor(chosenModel());
    const answer = await ask(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
    $('answer').className = '';
    $('answer').textContent = answer.choices?.[0]?.message?.content ?? compact(JSON.stringify(answer, short, 2));
  } catch (error) {
    $('answer').className = 'bad';
    $('answer').textContent = error.message;
  }
  $('time').textContent = `${(performance.now() - began).toFixed(1)} ms`;
  $('run').disabled = false;
}

$('model').addEventListener('change', showInputs);
$('try').addEventListener('submit', runModel);
$('login').addEventListener('submit', (event) => {
  event.preventDefault();
  token = $('token').value;
  $('login').hidden = true;
});
void refresh();
