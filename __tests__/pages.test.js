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

test.each(pages)('links of %s lead to files and headings', (page) => {
  const broken = [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, link]) => link)
    .filter((link) => !/^[a-z]+:/.test(link))
    .filter((link) => {
      const [file, anchor] = link.split('#');
      const target = file === '' ? page : path.posix.join(path.posix.dirname(page), file);
      if (!fs.existsSync(path.join(ROOT, target))) return true;
      return anchor !== undefined && target.endsWith('.md') && !anchors(target).includes(anchor);
    });
  expect(broken).toEqual([]);
});

test('the index has every page of docs/', () => {
  const index = fs.readFileSync(path.join(ROOT, 'docs', 'index.md'), 'utf8');
  const missing = fs.readdirSync(path.join(ROOT, 'docs')).filter((name) => name.endsWith('.md') && name !== 'index.md' && !index.includes(`(${name})`));
  expect(missing).toEqual([]);
});

test('the chart shows the figures of benches/RESULTS.md', () => {
  const { status, stderr } = spawnSync(process.execPath, ['benches/charts.mjs', '--check'], { cwd: ROOT, encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});
