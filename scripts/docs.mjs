// npm run docs: writes the pages of docs/ and the reference of the API, from the typings, to target/docs/.
import { readFileSync, readdirSync } from 'node:fs';
import { register } from 'node:module';
import path from 'node:path';
import { inRepository } from './repository.mjs';
import { setUp } from './setup.mjs';

const OUTPUT = inRepository('target', 'docs');
const read = (file) => readFileSync(inRepository(file), 'utf8');
const listed = (folder) => readdirSync(inRepository(folder)).sort();

/** The pages in the order of the index, which has them all (`__tests__/pages.test.js`). */
const PAGES = [...read('docs/index.md').matchAll(/\]\(([\w-]+\.md)\)/g)].map(([, name]) => `docs/${name}`);
const readmes = (folder) => listed(folder).map((name) => `${folder}/${name}/README.md`);
const RESULTS = listed('benches/results').map((name) => `benches/results/${name}`);
const OTHERS = ['ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'benches/README.md', 'benches/RESULTS.md', ...RESULTS];
const TYPINGS = ['index.d.ts', 'lib/onnx.d.ts', 'lib/generate.d.ts', 'lib/onnxruntime.d.ts', 'lib/webgpu.d.ts'];
const LANGUAGES = ['javascript', 'typescript', 'json', 'jsonc', 'yaml', 'sh', 'rust', 'python'];

/** TypeDoc reads declarations with TypeScript's JavaScript API, which TypeScript 7 does not have. */
const HOOK = `export const resolve = (name, context, next) => next(name === 'typescript' ? 'typescript-5' : name, context);`;

/** The title of a page is its first heading. */
function titleOf(content) {
  const text = content.map(({ text: part }) => part).join('');
  return /^# (.+)$/m.exec(text)?.[1].replaceAll('`', '');
}

async function build() {
  register(`data:text/javascript,${encodeURIComponent(HOOK)}`);
  const { Application, Converter } = await import('typedoc');
  const documents = [...PAGES, ...readmes('examples'), ...readmes('packages'), ...OTHERS];
  const app = await Application.bootstrap({
    name: 'webnn-node',
    entryPoints: TYPINGS.map((file) => inRepository(file)),
    projectDocuments: documents.map((file) => inRepository(file)),
    readme: inRepository('docs/index.md'),
    tsconfig: inRepository('scripts/docs/tsconfig.json'),
    out: OUTPUT,
    includeVersion: true,
    disableSources: true,
    disableGit: true,
    highlightLanguages: LANGUAGES,
    sort: ['source-order'],
    skipErrorChecking: true,
    validation: { notExported: false, invalidLink: true, invalidPath: true },
    treatWarningsAsErrors: true,
  });
  app.converter.on(Converter.EVENT_CREATE_DOCUMENT, (context, document) => {
    document.name = titleOf(document.content) ?? document.name;
  });
  const project = await app.convert();
  if (project === undefined) return false;
  await app.generateOutputs(project);
  return !app.logger.hasErrors() && !app.logger.hasWarnings();
}

await setUp({ addon: false });
if (await build()) console.log(`written to ${path.join(OUTPUT, 'index.html')}`);
else process.exitCode = 1;
