// The programs of README and of the first page of docs/ as they stand, and the links of every page that is packed.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Project, succeed } from './surroundings.mjs';

const block = /^```(?:js|mjs|cjs)\n(.*?)^```$/gms;

/** What pages say a program prints: `console.log(…); // this`. */
const printed = (text) => [...text.matchAll(/^\s*console\.log\(.*\);? *\/\/ (.*)$/gm)].map(([, words]) => words);

/** What README's first program takes from elsewhere: a tokenizer's arrays. */
const given = `globalThis.ids = BigInt64Array.of(101n, 7592n, 102n); globalThis.mask = BigInt64Array.of(1n, 1n, 1n);`;

/** A model as README's first program has one: `logits` is input_ids times attention_mask. */
function model() {
  const { writeModel } = createRequire(import.meta.url)('../../__tests__/onnx/write.js');
  const value = (name, type, ...shape) => ({ name, type, shape });
  return writeModel({
    opset: 17,
    inputs: ['input_ids', 'attention_mask'].map((name) => value(name, 'int64', 'batch', 'sequence')),
    outputs: [value('logits', 'float', 'batch', 'sequence')],
    nodes: [
      { op: 'Mul', inputs: ['input_ids', 'attention_mask'], outputs: ['product'] },
      { op: 'Cast', inputs: ['product'], outputs: ['logits'], attributes: { to: 1 } },
    ],
  });
}

/** The whole programs of a page: they load the package and leave nothing out. */
function programsOf(text) {
  const programs = [...text.matchAll(block)].map(([, content]) => content);
  return programs.filter((content) => /^(import |const .* = require\()/m.test(content) && !/…|\.\.\./.test(content));
}

async function runPage(project, page) {
  const programs = programsOf(readFileSync(path.join(project.folder, 'node_modules', 'webnn-node', page), 'utf8'));
  for (const [index, content] of programs.entries()) {
    const file = `${page.replace(/\W/g, '-')}-${index}.${/^import /m.test(content) ? 'mjs' : 'cjs'}`;
    project.write(file, content);
    // The lengths that inspect() adds to the names of typed arrays are left out on the pages.
    const found = (await succeed(process.execPath, ['--import', './given.mjs', file], { cwd: project.folder })).replace(/\b\w+Array\(\d+\) (?=\[)/g, '').split('\n');
    for (const words of printed(content)) {
      if (!found.includes(words)) throw new Error(`${page} says that this prints ${words}, and it prints ${found.join('\n')}:\n${content}`);
    }
  }
  return programs.length;
}

async function runPages({ registry, version }) {
  const project = new Project(registry);
  try {
    await project.npm('install', '--ignore-scripts', `webnn-node@${version}`);
    project.write('model.onnx', model());
    project.write('given.mjs', given);
    const readme = await runPage(project, 'README.md');
    const first = await runPage(project, 'docs/getting-started.md');
    if (readme === 0 || first === 0) throw new Error('README and docs/getting-started.md begin with a whole program');
    const text = readFileSync(path.join(project.folder, 'node_modules', 'webnn-node', 'README.md'), 'utf8');
    if (/^```(?:sh|bash)\n(.*?)^```$/ms.exec(text)?.[1].trim() !== 'npm install webnn-node') throw new Error('README begins with npm install webnn-node');
    return `${readme + first} programs`;
  } finally {
    project.remove();
  }
}

function checkLinks(folder) {
  const pages = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith('.md') && !file.includes('node_modules'));
  let count = 0;
  for (const page of pages) {
    const text = readFileSync(path.join(folder, page), 'utf8').replace(/```.*?```/gs, '');
    for (const [, target] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      count++;
      const [name, anchor] = target.split('#');
      const file = name ? path.join(folder, path.dirname(page), name) : path.join(folder, page);
      if (!existsSync(file)) throw new Error(`${page} links to ${target}, which is not in the package`);
      if (anchor && !anchors(readFileSync(file, 'utf8')).includes(anchor)) throw new Error(`${page} links to ${target}, and there is no such heading`);
    }
  }
  return count;
}

/** Headings as GitHub makes anchors of them. */
function anchors(text) {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').trim().replace(/\s/g, '-'));
}

export const readmeTrials = (setting) => [
  ["README's programs run", () => runPages(setting)],
  ['links in the packages resolve', () => `${checkLinks(path.join(setting.project.folder, 'node_modules', 'webnn-node'))} links`],
];
