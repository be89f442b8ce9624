'use strict';

// The flame chart: one run, with the scopes of its steps above them. To zoom makes the chart wider than what scrolls it.

const { byId, element, explain } = require('./dom.js');
const { share, tick, time } = require('./format.js');
const { framesOf } = require('./scopes.js');

const MOST_ZOOM = 400;
/** Below so many pixels a bar has no text. */
const NARROW = 14;

class Flame {
  #model;
  #scroll = byId('flame');
  #chart = element('div', { class: 'chart' });
  #axis = element('div', { class: 'axis' });
  #bars = [];
  #zoom = 1;

  constructor(model) {
    this.#model = model;
    const { steps, ms } = model.run;
    this.#chart.append(this.#axis, this.#row('', [this.#bar('run', 0, ms)]));
    for (const frames of framesOf(model.steps.map(({ label }) => label))) this.#chart.append(this.#row('', frames.map((frame) => this.#frame(frame))));
    this.#chart.append(this.#row(' last', steps.map((_, i) => this.#step(i))));
    this.#scroll.append(this.#chart);
    this.#addTools();
    this.#draw();
    globalThis.addEventListener('resize', () => this.#draw());
  }

  #row(kind, bars) {
    return element('div', { class: `row${kind}` }, ...bars);
  }

  #place(bar, began, ms) {
    const { ms: all } = this.#model.run;
    bar.style.left = `${(100 * began) / all}%`;
    bar.style.width = `${(100 * ms) / all}%`;
    this.#bars.push([bar, ms / all]);
    return bar;
  }

  #bar(name, began, ms) {
    const bar = element('div', { class: 'bar' }, name);
    explain(bar, () => [name, `${time(ms)}, ${share(ms, this.#model.run.ms)} of the run`]);
    return this.#place(bar, began, ms);
  }

  #frame({ name, path, first, last }) {
    const { steps, ms: all } = this.#model.run;
    const began = steps[first].began;
    const ms = steps[last].began + steps[last].ms - began;
    const bar = element('div', { class: 'bar' }, name);
    explain(bar, () => [`/${path}`, `${time(ms)}, ${share(ms, all)} of the run; steps ${first + 1} to ${last + 1}`]);
    return this.#place(bar, began, ms);
  }

  #step(i) {
    const { run, steps, colors } = this.#model;
    const { operators, label, implementation } = steps[i];
    const { began, ms } = run.steps[i];
    const bar = element('button', { type: 'button', class: 'bar step', tabindex: '-1', style: { '--color': colors[i] } }, operators);
    bar.addEventListener('click', () => this.#model.choose(i));
    explain(bar, () => [`${i + 1}. ${operators}`, ...(label ? [label] : []), `${time(ms)} in this run, ${share(ms, run.ms)}`, implementation]);
    this.#model.onChoose((chosen, from) => {
      bar.classList.toggle('chosen', chosen === i);
      if (chosen === i && from !== 'flame') this.#show(began + ms / 2);
    });
    return this.#place(bar, began, ms);
  }

  #addTools() {
    const button = (text, label, zoom) => element('button', { type: 'button', 'aria-label': label, onclick: () => this.#zoomTo(zoom()) }, text);
    byId('flame-tools').append(button('−', 'Zoom out', () => this.#zoom / 2), button('+', 'Zoom in', () => this.#zoom * 2), button('All', 'Show the whole run', () => 1));
    const wheel = (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const { left, width } = this.#chart.getBoundingClientRect();
      this.#zoomTo(this.#zoom * 2 ** (-event.deltaY / 200), (event.clientX - left) / width, event.clientX - this.#scroll.getBoundingClientRect().left);
    };
    this.#scroll.addEventListener('wheel', wheel, { passive: false });
  }

  /** Zooms, and keeps a place of the chart (from 0 to 1) where it is in the window. */
  #zoomTo(zoom, place = undefined, at = this.#scroll.clientWidth / 2) {
    const kept = place ?? (this.#scroll.scrollLeft + at) / this.#chart.offsetWidth;
    this.#zoom = Math.min(MOST_ZOOM, Math.max(1, zoom));
    this.#draw();
    this.#scroll.scrollLeft = kept * this.#chart.offsetWidth - at;
  }

  #show(at) {
    const { clientWidth, scrollLeft } = this.#scroll;
    const x = (at / this.#model.run.ms) * this.#chart.offsetWidth;
    if (x < scrollLeft || x > scrollLeft + clientWidth) this.#scroll.scrollLeft = x - clientWidth / 2;
  }

  #draw() {
    const { ms } = this.#model.run;
    this.#chart.style.width = `${100 * this.#zoom}%`;
    const width = this.#chart.offsetWidth;
    for (const [bar, part] of this.#bars) bar.classList.toggle('narrow', part * width < NARROW);
    const every = tick(ms, width / 110);
    const ticks = [];
    // The last one needs room for its text.
    for (let i = 0; i * every < ms * (1 - 50 / width); i++) ticks.push(element('span', { style: { left: `${(100 * i * every) / ms}%` } }, time(i * every)));
    this.#axis.replaceChildren(...ticks);
  }
}

module.exports = { Flame };
