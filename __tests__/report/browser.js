'use strict';

// A headless Chromium that is driven by its DevTools protocol, over pipes: no package and no port is needed.

const { spawn, spawnSync } = require('node:child_process');
const { once } = require('node:events');
const { mkdtempSync } = require('node:fs');
const { rm } = require('node:fs/promises');
const os = require('node:os');
const path = require('node:path');

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** The program of a Chromium; nothing without one. */
function findBrowser() {
  const isThere = (name) => spawnSync(name, ['--version'], { encoding: 'utf8', timeout: 20_000 }).status === 0;
  return [process.env.WEBNN_CHROMIUM, ...NAMES].find((name) => name && isThere(name));
}

class Browser {
  #child;
  #folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-browser-'));
  #pending = new Map();
  #last = 0;
  /** What the page has told: `[method, parameters]`. */
  events = [];

  constructor(program) {
    const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--no-first-run', '--remote-debugging-pipe', `--user-data-dir=${this.#folder}`];
    this.#child = spawn(program, [...flags, 'about:blank'], { detached: true, stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    let text = '';
    this.#child.stdio[4].setEncoding('utf8').on('data', (part) => {
      const messages = (text + part).split('\0');
      text = messages.pop();
      messages.forEach((message) => this.#receive(JSON.parse(message)));
    });
    this.#child.on('exit', () => this.#pending.forEach(({ reject }) => reject(new Error('the browser has ended'))));
  }

  #receive({ id, method, params, result, error }) {
    if (id === undefined) {
      this.events.push([method, params]);
      return;
    }
    const { resolve, reject } = this.#pending.get(id);
    this.#pending.delete(id);
    if (error === undefined) resolve(result);
    else reject(new Error(error.message));
  }

  send(method, params = {}, sessionId = this.session) {
    const id = ++this.#last;
    this.#child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject });
    });
  }

  /** Opens a page, and waits until it is there. */
  async open(url, { width = 1400, height = 1000, dark = false } = {}) {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' }, undefined);
    ({ sessionId: this.session } = await this.send('Target.attachToTarget', { targetId, flatten: true }, undefined));
    this.events = [];
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await this.send(`${domain}.enable`);
    await this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
    await this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
    await this.send('Page.navigate', { url });
    while (!this.events.some(([method]) => method === 'Page.loadEventFired')) await new Promise((resolve) => { void setTimeout(resolve, 20); });
  }

  /** The value of an expression in the page. */
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails !== undefined) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  /** A PNG of the page. */
  async screenshot() {
    return Buffer.from((await this.send('Page.captureScreenshot', { format: 'png' })).data, 'base64');
  }

  async close() {
    const ended = this.#child.exitCode === null && this.#child.signalCode === null ? once(this.#child, 'exit') : undefined;
    // With its children, which write into the folder, too. They may take a moment to end: only this rm() waits before it tries again.
    try {
      process.kill(-this.#child.pid, 'SIGKILL');
    } catch (error) {
      // It has ended by itself.
      if (error.code !== 'ESRCH') throw error;
    }
    await ended;
    await rm(this.#folder, { recursive: true, force: true, maxRetries: 20 });
  }
}

module.exports = { Browser, findBrowser };
