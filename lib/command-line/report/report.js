'use strict';

// A profile as one HTML page that needs nothing else.

const { readFileSync } = require('node:fs');
const path = require('node:path');

/** The modules of the page; each may require those before it. */
const MODULES = ['dom', 'format', 'scopes', 'layout', 'flame', 'graph', 'tables', 'main'];

const read = (name) => readFileSync(path.join(__dirname, 'page', name), 'utf8');

/** One script of all modules. */
function script() {
  const modules = MODULES.map((name) => `define('./${name}.js', function (module, require) {\n${read(`${name}.js`)}\n});`);
  const loader = `const loaded = {};
function define(name, body) {
  const module = { exports: {} };
  body(module, (other) => loaded[other]);
  loaded[name] = module.exports;
}`;
  return `(function () {\n${loader}\n${modules.join('\n')}\n})();`;
}

/** @param {object} profile as page/main.js shows it */
function reportHtml(profile) {
  // Names in it must not end the element.
  const data = JSON.stringify(profile).replaceAll('<', String.raw`\u003c`);
  const parts = { STYLE: read('style.css'), DATA: data, SCRIPT: script() };
  return read('index.html').replace(/\/\*(STYLE|DATA|SCRIPT)\*\//g, (_, name) => parts[name]);
}

module.exports = { reportHtml };
