'use strict';

// npx webnn-node profile --html, in a headless Chromium.

const { spawnSync } = require('node:child_process');
const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { tensor, writeModel } = require('../onnx/write.js');
const { Browser, findBrowser } = require('./browser.js');

const cli = path.join(__dirname, '..', '..', 'bin', 'webnn-node.js');
/** Markup in a name is text. */
const EVIL = '</script><img src="https://example.org/x" onerror="alert(1)">';

let folder;
let page;
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-report-'));
  page = path.join(folder, 'report.html');
  const model = path.join(folder, 'model.onnx');
  const initializers = [tensor('w', 'float', [64, 64], new Float32Array(4096).fill(0.01))];
  const nodes = [
    { op: 'MatMul', name: '/encoder/first/MatMul', inputs: ['x', 'w'], outputs: ['a'] },
    { op: 'Softmax', name: '/encoder/shares/Softmax', inputs: ['a'], outputs: ['b'] },
    { op: 'MatMul', name: '/decoder/MatMul', inputs: ['b', 'w'], outputs: ['c'] },
    { op: 'Softmax', name: EVIL, inputs: ['c'], outputs: ['d'] },
    { op: 'MatMul', name: '/decoder/both/MatMul', inputs: ['b', 'd'], outputs: ['y'] },
  ];
  writeFileSync(model, writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: [64, 64] }], outputs: [{ name: 'y' }], initializers, nodes }));
  const { status, stderr } = spawnSync(process.execPath, [cli, 'profile', model, '--repeat', '3', '--html', page], { encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});
afterAll(() => rmSync(folder, { recursive: true }));

test('the page names no other file and no host', () => {
  const text = readFileSync(page, 'utf8').replaceAll(JSON.stringify(EVIL).slice(1, -1).replaceAll('<', String.raw`\u003c`), '');
  expect([...text.matchAll(/https?:\/\/[^'"\s]+/g)].map(([url]) => url)).toEqual(['http://www.w3.org/2000/svg']);
  expect(text).not.toMatch(/<(link|img|iframe)|<script[^>]* src|@import|url\(/);
  expect(text.match(/<\/script>/g)).toHaveLength(2);
});

const program = findBrowser();
const withBrowser = program === undefined ? describe.skip : describe;
withBrowser(`in Chromium${program === undefined ? ' (not found: install it, or name it by WEBNN_CHROMIUM)' : ''}`, () => {
  let browser;
  beforeAll(() => (browser = new Browser(program)));
  afterAll(() => browser.close());

  const open = (options) => browser.open(pathToFileURL(page).href, options);
  const texts = (selector) => browser.evaluate(`[...document.querySelectorAll(${JSON.stringify(selector)})].map((node) => node.textContent)`);
  const click = (selector, number) =>
    browser.evaluate(`document.querySelectorAll(${JSON.stringify(selector)})[${number}].dispatchEvent(new MouseEvent('click', { bubbles: true }))`);

  test('it shows the chart, the graph and both tables, and asks nobody for anything', async () => {
    await open();
    const operators = ['matmul', 'softmax', 'matmul', 'softmax', 'matmul'];
    expect((await texts('#flame .row:not(.last) .bar')).filter((text) => /^\w+$/.test(text))).toEqual(['run', 'encoder', 'decoder', 'decoder', 'first', 'shares', 'both']);
    expect(await texts('#flame .bar.step')).toEqual(operators);
    expect(await texts('#graph .name')).toEqual(operators);
    expect(await browser.evaluate(`document.querySelectorAll('#graph .edge').length`)).toBe(5);
    expect(await texts('#operators tbody td:first-child')).toEqual(expect.arrayContaining(['matmul', 'softmax']));
    expect(await texts('#steps tbody td:first-child')).toEqual(['1', '2', '3', '4', '5']);
    const evil = await texts('#steps tbody tr:nth-child(4) td:nth-child(2) span:last-child');
    expect(evil).toEqual([EVIL]);
    const requests = browser.events.filter(([method]) => method === 'Network.requestWillBeSent').map(([, { request }]) => request.url);
    expect(requests).toEqual([pathToFileURL(page).href]);
    expect(browser.events.filter(([method]) => method === 'Runtime.exceptionThrown' || method === 'Log.entryAdded')).toEqual([]);
  });

  test('a step that is chosen in one part is chosen in all; tables sort and filter', async () => {
    await open();
    await click('#graph .node', 4);
    expect(await texts('#details-title')).toEqual(['Step 5 of 5']);
    expect(await texts('#details .links button')).toEqual(['2. softmax', '4. softmax']);
    expect(await browser.evaluate(`[...document.querySelectorAll('#flame .bar.step')].findIndex((bar) => bar.classList.contains('chosen'))`)).toBe(4);
    await click('#flame .bar.step', 1);
    expect(await texts('#steps tr.chosen td:first-child')).toEqual(['2']);
    await click('#steps th button', 0);
    expect(await texts('#steps tbody td:first-child')).toEqual(['5', '4', '3', '2', '1']);
    await browser.evaluate(`filter.value = 'decoder matmul'; filter.dispatchEvent(new Event('input'))`);
    expect(await texts('#steps tbody td:first-child')).toEqual(['5', '3']);
    await click('#flame-tools button', 1);
    expect(await browser.evaluate(`document.querySelector('.chart').offsetWidth > 1.9 * flame.clientWidth - 60`)).toBe(true);
  });

  test('nothing lies over something else, on wide and narrow screens', async () => {
    for (const width of [1400, 420]) {
      await open({ width });
      const found = await browser.evaluate(`(() => {
        const boxes = [...document.querySelectorAll('#graph .box')].map((box) => box.getBoundingClientRect());
        const lie = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
        const wide = [...document.querySelectorAll('#graph .node')].filter((node) => {
          const box = node.querySelector('.box').getBoundingClientRect();
          return [...node.querySelectorAll('text')].some((text) => text.getBoundingClientRect().right > box.right);
        });
        return [boxes.some((a, i) => boxes.slice(i + 1).some((b) => lie(a, b))), wide.length, document.documentElement.scrollWidth > innerWidth];
      })()`);
      expect(found).toEqual([false, 0, false]);
    }
  });

  test('it follows the theme of the system, and text stands out in both', async () => {
    /** The contrast of WCAG between two colors, which a canvas makes numbers of. */
    const contrast = `((selector, backing) => {
      const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
      const light = (color) => {
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((value) => ((value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
      };
      return [...document.querySelectorAll(selector)].map((node) => {
        const style = getComputedStyle(node);
        const text = node.tagName === 'text' ? style.fill : style.color;
        const [a, b] = [text, backing(node)].map(light);
        return Math.max(a, b) / Math.min(a, b);
      });
    })`;
    const pages = [];
    for (const dark of [false, true]) {
      await open({ dark });
      const own = '(node) => getComputedStyle(node).backgroundColor';
      const card = `() => getComputedStyle(document.querySelector('.card')).backgroundColor`;
      const box = `(node) => getComputedStyle(node.parentNode.querySelector('.box')).fill`;
      // However hot a node is.
      await browser.evaluate(`document.querySelectorAll('.node').forEach((node, i) => node.style.setProperty('--heat', 25 * i + '%'))`);
      for (const [selector, backing] of [['#graph text', box], ['.bar.step', own], ['.note, td, h2, dt, dd, .tile span', card]]) {
        expect([selector, Math.min(...(await browser.evaluate(`${contrast}('${selector}', ${backing})`))) > 4.2]).toEqual([selector, true]);
      }
      pages.push(await browser.evaluate('getComputedStyle(document.body).backgroundColor'));
      expect((await browser.screenshot()).length).toBeGreaterThan(20_000);
      await click('#theme', 0);
      pages.push(await browser.evaluate('getComputedStyle(document.body).backgroundColor'));
    }
    expect(pages[0]).not.toBe(pages[1]);
    expect(pages).toEqual([pages[0], pages[1], pages[1], pages[0]]);
  });
});
