// webnn-node, on a context of either kind.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { loadOnnx } = require('../../../lib/onnx.js');
const { GenerationCache, generate } = require('../../../lib/generate.js');

export function on(context) {
  return {
    async load(file) {
      const model = await loadOnnx(context, file);
      return {
        async run(inputs) {
          const results = await model.run(Object.fromEntries(Object.entries(inputs).map(([name, { data, dims }]) => [name, { data, shape: dims }])));
          return Object.values(results)[0].data;
        },
        release: () => model.destroy(),
      };
    },
    async decoder(file) {
      const model = await loadOnnx(context, readFileSync(file));
      // Each prompt is computed whole.
      const cache = new GenerationCache({ maxBytes: 0 });
      return {
        async generate(prompt, most, each) {
          for await (const { id } of generate(model, prompt, { cache, maxNewTokens: most })) each(id);
        },
        release: () => model.destroy(),
      };
    },
  };
}
