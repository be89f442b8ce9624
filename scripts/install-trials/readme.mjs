// README's programs as they stand, and the links of every page that is packed.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { succeed } from './surroundings.mjs';

const block = /^```(js|mjs|cjs)\n(.*?)^```$/gms;

/** Programs, and not pieces of one: they load something, and leave nothing out. */
const isProgram = (text) => /^(import |const .* = require\()/m.test(text) && !/…|\.\.\./.test(text);

/** What pages say a program prints: `console.log(…); // this`. */
const printed = (text) => [...text.matchAll(/^\s*console\.log\(.*\);? *\/\/ (.*)$/gm)].map(([, words]) => words);

/** Pieces are given what they speak of, in the words of the page. */
const isCode = (text) => text.trim() !== '';

async function checkPrograms(project, page) {
  const text = readFileSync(path.join(project.folder, 'node_modules', 'webnn-node', page), 'utf8');
  const programs = [...text.matchAll(block)].map(([, language, content]) => ({ language, content }));
  let run = 0;
  for (const { content } of programs.filter(({ content: piece }) => isCode(piece))) {
    const module = /^import /m.test(content) || /^(?:\S.*)?\bawait\b/m.test(content);
    const file = `readme-${run}.${module ? 'mjs' : 'cjs'}`;
    project.write(file, content);
    if (!/…/.test(content)) await succeed(process.execPath, ['--check', file], { cwd: project.folder });
    const expected = printed(content);
    if (!isProgram(content) || expected.length === 0) continue;
    const found = (await succeed(process.execPath, [file], { cwd: project.folder })).replace(/\b\w+Array\(\d+\) (?=\[)/g, '').split('\n');
    expected.forEach((words, line) => {
      if (found[line] !== undefined && found[line] !== words && !found.includes(words)) throw new Error(`${page} says that this prints ${words}, and it prints ${found[line]}:\n${content}`);
    });
    run++;
  }
  return { run, all: programs.length };
}

function checkLinks(folder, packageName) {
  const pages = readdirSync(folder, { recursive: true }).filter((file) => file.endsWith('.md') && !file.includes('node_modules'));
  let count = 0;
  for (const page of pages) {
    const text = readFileSync(path.join(folder, page), 'utf8');
    for (const [, target] of text.replace(/```.*?```/gs, '').matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      count++;
      const [name, anchor] = target.split('#');
      const file = name ? path.join(folder, path.dirname(page), name) : path.join(folder, page);
      if (!existsSync(file)) throw new Error(`${packageName}/${page} links to ${target}, which is not in the package`);
      if (anchor && !anchors(readFileSync(file, 'utf8')).includes(anchor)) throw new Error(`${packageName}/${page} links to ${target}, and there is no such heading`);
    }
  }
  return count;
}

/** Headings as GitHub makes anchors of them. */
function anchors(text) {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').trim().replace(/\s/g, '-'));
}

export const readmeTrials = ({ project }) => [
  ["README's programs run", async () => {
    const { run, all } = await checkPrograms(project, 'README.md');
    if (run === 0) throw new Error('README has no program that says what it prints');
    return `${run} run, ${all} parsed`;
  }],
  ['links in the packages resolve', async () => {
    const modules = path.join(project.folder, 'node_modules');
    return `${checkLinks(path.join(modules, 'webnn-node'), 'webnn-node')} links`;
  }],
];
