'use strict';

// The page at `/`, also in a headless Chromium, by keyboard.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout } = require('node:timers/promises');
const { createServer } = require('@webnn-node/serve');
const { Browser, findBrowser } = require('../report/browser.js');
const { twice } = require('./folder.js');

let folder;
let server;
let origin;
beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-serve-'));
  fs.writeFileSync(path.join(folder, 'double.onnx'), twice('Add'));
  // Markup in a name is text.
  fs.writeFileSync(path.join(folder, '<img src=x onerror=alert(1)>.onnx'), twice('Mul'));
  server = await createServer({ models: folder, token: 'secret' });
  origin = await server.listen({ port: 0, host: '127.0.0.1' });
});
afterAll(async () => {
  await server.close();
  fs.rmSync(folder, { recursive: true });
});

test('is files of this server only, with a policy that allows no others', async () => {
  for (const [url, type] of [['/', 'text/html'], ['/page/main.js', 'text/javascript'], ['/page/style.css', 'text/css']]) {
    const response = await fetch(origin + url);
    expect([url, response.status, response.headers.get('content-type')]).toEqual([url, 200, `${type}; charset=utf-8`]);
    expect(response.headers.get('content-security-policy')).toMatch(/^default-src 'none'; script-src 'self'/);
    expect(await response.text()).not.toMatch(/https?:\/\/|innerHTML/);
  }
  expect((await fetch(`${origin}/page/..%2Findex.js`, { headers: { authorization: 'Bearer secret' } })).status).toBe(404);
});

test('shows its numbers to those who know the token', async () => {
  expect((await fetch(`${origin}/page/state`)).status).toBe(401);
  const state = await (await fetch(`${origin}/page/state`, { headers: { authorization: 'Bearer secret' } })).json();
  expect(state).toMatchObject({ ready: true, running: 0, models: expect.arrayContaining([expect.objectContaining({ name: 'double', kind: 'tensors' })]) });
});

const program = findBrowser();
const withBrowser = program === undefined ? describe.skip : describe;
withBrowser(`in Chromium${program === undefined ? ' (not found: install it, or name it by WEBNN_CHROMIUM)' : ''}`, () => {
  let browser;
  beforeAll(() => {
    browser = new Browser(program);
  });
  afterAll(() => browser.close());

  const until = async (expression) => {
    while (!(await browser.evaluate(expression))) await setTimeout(50);
  };
  const press = async (key, text) => {
    await browser.send('Input.dispatchKeyEvent', { type: 'keyDown', key, code: key, ...(key === 'Tab' ? { windowsVirtualKeyCode: 9 } : {}), ...(key === 'Enter' ? { windowsVirtualKeyCode: 13, text: '\r' } : {}), ...(text === undefined ? {} : { text }) });
    await browser.send('Input.dispatchKeyEvent', { type: 'keyUp', key, code: key });
  };
  const tabTo = async (id) => {
    for (let i = 0; i < 30; i++) {
      if ((await browser.evaluate('document.activeElement.id')) === id) return;
      await press('Tab');
    }
    throw new Error(`Tab does not lead to ${id}`);
  };

  test('asks for the token, shows the models, and runs one, by keyboard', async () => {
    await browser.open(origin);
    await until("!document.getElementById('login').hidden");
    await tabTo('token');
    for (const letter of 'secret') await press(letter, letter);
    await press('Enter');
    await until("document.getElementById('status').textContent === 'ready'");
    await until("document.querySelectorAll('#models tr').length === 2");
    expect(await browser.evaluate("[...document.querySelectorAll('#models th')].map(({ textContent }) => textContent).sort()")).toEqual(['<img src=x onerror=alert(1)>', 'double']);
    expect(await browser.evaluate('document.images.length')).toBe(0);
    await browser.evaluate("{ const model = document.getElementById('model'); model.value = [...model.options].find(({ value }) => value.includes('double')).value; model.dispatchEvent(new Event('change')); }");
    await until("document.querySelector('#inputs legend')?.textContent === 'x: FP32[?, 2]'");
    await tabTo('data-0');
    // A busy browser may lose a key that comes right after the focus.
    do await press('1', '1');
    while (await browser.evaluate("document.getElementById('data-0').value === '0'"));
    await tabTo('run');
    await press('Enter');
    await until("document.getElementById('answer').textContent !== ''");
    const { outputs } = JSON.parse(await browser.evaluate("document.getElementById('answer').textContent"));
    expect(outputs[0].data).toEqual([outputs[0].data[0], outputs[0].data[0]]);
    expect(outputs[0].data[0]).toBeGreaterThan(0);
    // What it shows follows.
    await until("[...document.querySelectorAll('#models tr')].find((row) => row.textContent.startsWith('double')).children[3].textContent === '1'");
    expect(await browser.evaluate("[...document.querySelectorAll('#models tr')].find((row) => row.textContent.startsWith('double')).children[6].textContent")).toMatch(/ ms$/);
    expect(await browser.evaluate("[...document.querySelectorAll('#load svg')].map((svg) => svg.getAttribute('aria-label').replace(/\\d+/, 'N'))")).toEqual(['Requests under way', 'Requests a second', 'MiB'].map((label) => `${label} in the last minute, N at most`));
    const errors = browser.events.filter(([method, { entry, exceptionDetails }]) => method === 'Runtime.exceptionThrown' || (entry?.level === 'error' && !entry.text.includes('401') && exceptionDetails === undefined));
    expect(errors).toEqual([]);
    const hosts = browser.events.filter(([method]) => method === 'Network.requestWillBeSent').map(([, { request }]) => new URL(request.url)).filter(({ protocol }) => protocol !== 'data:');
    expect(new Set(hosts.map((url) => url.origin))).toEqual(new Set([origin]));
    if (process.env.WEBNN_SCREENSHOT) fs.writeFileSync(process.env.WEBNN_SCREENSHOT, await browser.screenshot());
  });
});
