// npm run docs: writes the pages of docs/ and the reference of the API, from the typings, to target/docs/.
import { register } from 'node:module';
import path from 'node:path';
import { inRepository } from './repository.mjs';
import { setUp } from './setup.mjs';

const OUTPUT = inRepository('target', 'docs');
const PAGES = ['getting-started', 'webnn', 'devices', 'performance', 'onnx', 'onnx-operators', 'refused-models', 'generate', 'fp-math', 'migrating'];
const MORE_PAGES = ['onnxruntime', 'transformers', 'servers', 'serving', 'serving-text', 'bundlers', 'bun-deno', 'browser', 'webgpu', 'extensions', 'adding-an-operator'];
const OTHERS = ['ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'benches/README.md', 'benches/RESULTS.md', 'packages/onnxruntime-node/README.md', 'packages/serve/README.md', 'packages/constrain/README.md'];
const EXAMPLES = ['digits', 'embeddings', 'images', 'generate', 'chat', 'extraction', 'bulk', 'webgpu', 'litert'].map((name) => `examples/${name}/README.md`);
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
  const documents = [...[...PAGES, ...MORE_PAGES].map((name) => `docs/${name}.md`), ...EXAMPLES, ...OTHERS];
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
