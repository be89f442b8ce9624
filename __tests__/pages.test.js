'use strict';

// The pages that people read: links lead somewhere, the index has every page, and the chart is that of the figures.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const ROOT = path.join(__dirname, '..');
const FOLDERS = ['.', 'docs', 'benches', 'benches/results', 'fuzz', 'packages', 'examples'];

function pagesIn(folder) {
  const entries = fs.readdirSync(path.join(ROOT, folder), { withFileTypes: true });
  const below = ['packages', 'examples'].includes(folder) ? entries.filter((entry) => entry.isDirectory()) : [];
  const pages = entries.filter((entry) => entry.name.endsWith('.md')).map((entry) => path.posix.join(folder, entry.name));
  return [...pages, ...below.flatMap((entry) => pagesIn(`${folder}/${entry.name}`))];
}

/** The text without code, in which brackets mean something else. */
const prose = (page) => fs.readFileSync(path.join(ROOT, page), 'utf8').replace(/^```.*?^```/gms, '').replace(/`[^`\n]*`/g, (code) => code.replace(/[[\]]/g, ' '));

/** A heading's anchor, as GitHub makes it. */
const slug = (heading) =>
  heading
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\- _]/gu, '')
    .replaceAll(' ', '-');

const anchors = (page) => [...prose(page).matchAll(/^#+ (.*)$/gm)].map(([, heading]) => slug(heading));

const pages = FOLDERS.flatMap(pagesIn);

/** A folder is none: the site of `npm run docs` has no page for it. */
const isFile = (file) => fs.statSync(path.join(ROOT, file), { throwIfNoEntry: false })?.isFile() ?? false;

test.each(pages)('links of %s lead to files and headings', (page) => {
  const broken = [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, link]) => link)
    .filter((link) => !/^[a-z]+:/.test(link))
    .filter((link) => {
      const [file, anchor] = link.split('#');
      const target = file === '' ? page : path.posix.join(path.posix.dirname(page), file);
      if (!isFile(target)) return true;
      return anchor !== undefined && target.endsWith('.md') && !anchors(target).includes(anchor);
    });
  expect(broken).toEqual([]);
});

test('the index has every page of docs/', () => {
  const index = fs.readFileSync(path.join(ROOT, 'docs', 'index.md'), 'utf8');
  const missing = fs.readdirSync(path.join(ROOT, 'docs')).filter((name) => name.endsWith('.md') && name !== 'index.md' && !index.includes(`(${name})`));
  expect(missing).toEqual([]);
});

const MADE = ['dist', 'node_modules', 'target'];

/** All files and folders (with a slash after) of the repository, as paths, but those that commands make. */
function repository(folder = '.') {
  const entries = fs.readdirSync(path.join(ROOT, folder), { withFileTypes: true }).filter(({ name }) => name !== '.git' && !MADE.includes(name));
  return entries.flatMap((entry) => {
    const name = path.posix.join(folder, entry.name);
    return entry.isDirectory() ? [`${name}/`, ...repository(name)] : [name];
  });
}

const files = repository();
const sources = files.filter((name) => /\.(rs|js|mjs|ts|wgsl|toml)$/.test(name) && !name.endsWith('pages.test.js'));
const words = new Set(sources.flatMap((name) => fs.readFileSync(path.join(ROOT, name), 'utf8').match(/[A-Za-z_]\w*/g) ?? []));
const scripts = Object.keys(require('../package.json').scripts);

const FILE = /^(?=.*\/|.*\.(rs|[cm]?js|ts|txt|wgsl|md|py|json|html|toml|yml)$)[\w.-]+(\/[\w.-]+)*(\/|\.\w+)$/;

/** What a piece of code on a page mentions that is not there: a file or folder, a command of npm, a name of the code. */
function missing(code) {
  if (MADE.some((folder) => code.startsWith(`${folder}/`))) return [];
  if (FILE.test(code)) return files.some((name) => name === code || name.endsWith(`/${code}`)) ? [] : [code];
  const commands = [...code.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name).filter((name) => !scripts.includes(name));
  const names = code.match(/\b([A-Z]\w+|[a-z]\w*_\w+)/g) ?? [];
  return [...commands, ...names.filter((name) => !words.has(name))];
}

test.each(['ARCHITECTURE.md', 'CONTRIBUTING.md', 'docs/adding-an-operator.md'])('the files, names and commands that %s mentions exist', (page) => {
  const text = fs.readFileSync(path.join(ROOT, page), 'utf8');
  const spans = [...text.replace(/^ *```.*?^ *```/gms, '').matchAll(/`([^`\n]+)`/g)].map(([, code]) => code);
  const blocks = [...text.matchAll(/^ *```\w*\n(.*?)^ *```/gms)].map(([, block]) => block);
  const commands = blocks.flatMap((block) => block.match(/npm run [\w:]+/g) ?? []);
  const listed = blocks.flatMap((block) => block.split(/[\s(),:;]+/)).filter((word) => /^[a-z_.]/.test(word) && FILE.test(word));
  expect([...spans, ...commands, ...listed].flatMap(missing)).toEqual([]);
});

test('the charts show the figures of benches/results/', () => {
  const { status, stderr } = spawnSync(process.execPath, ['benches/charts.mjs', '--check'], { cwd: ROOT, encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});
