// Constrained output of a decoder: tokens a second where masks are made on the JavaScript thread or beside the step, and where tokens that can only
// follow are fed together or one by one.
import { createRequire } from 'node:module';
import { compile } from '@webnn-node/constrain';
import { median } from '../statistics.mjs';

const require = createRequire(import.meta.url);
const { ml } = require('../../lib/index.js');
const { loadOnnx } = require('../../lib/onnx.js');
const { GenerationCache, generate, generationUsage } = require('../../lib/generate.js');

const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties), additionalProperties: false });
/** An extraction with long keys, whose values are short: a model of weights by chance writes no sensible strings. */
const SCHEMAS = {
  'long keys': object({
    customer_identification_number: { type: 'integer', minimum: 0, maximum: 99999 },
    preferred_contact_language: { enum: ['English', 'German', 'French', 'Spanish'] },
    has_accepted_terms_and_conditions: { type: 'boolean' },
    delivery_address: object({ street_and_number: { type: 'string', maxLength: 12 }, postal_code: { type: 'string', pattern: '[0-9]{5}' }, country_code: { enum: ['DE', 'FR', 'ES', 'US'] } }),
    expected_delivery_date: { type: 'string', format: 'date' },
    payment_confirmation_status: { enum: ['pending', 'confirmed', 'rejected'] },
    number_of_ordered_items: { type: 'integer', minimum: 1, maximum: 999 },
    requires_special_handling: { type: 'boolean' },
  }),
  'short keys': object(Object.fromEntries([...'abcdefgh'].map((key) => [key, { type: 'string', minLength: 8, maxLength: 16 }]))),
};

/** A constraint whose matchers lack some of their members. */
function without(constraint, ...names) {
  const begin = () => {
    const matcher = constraint.begin();
    const members = ['mask', 'maskAsync', 'push', 'forced'].filter((name) => !names.includes(name));
    const own = Object.fromEntries(members.map((name) => [name, (...given) => matcher[name](...given)]));
    return Object.defineProperty(own, 'isDone', { get: () => matcher.isDone });
  };
  return { begin };
}

const WAYS = {
  'masks on the JavaScript thread': (constraint) => without(constraint, 'maskAsync'),
  'masks beside the step': (constraint) => constraint,
  'and nothing fed together': (constraint) => without(constraint, 'forced'),
};

async function run(model, constraint, seed) {
  const before = await generationUsage(model);
  const prompt = Array.from({ length: 32 }, (_, i) => 1 + ((i * 7919 + seed) % 20000));
  const options = { constraint, maxNewTokens: 400, temperature: 1, seed, cache: new GenerationCache({ maxBytes: 0 }) };
  const generation = generate(model, prompt, options);
  // Without the prompt.
  const { value: first } = await generation.next();
  const began = performance.now();
  const ids = [first.id];
  let forced = 0;
  for await (const token of generation) {
    ids.push(token.id);
    if (token.forced) forced++;
  }
  const time = performance.now() - began;
  const { steps } = await generationUsage(model);
  return { tokens: ids.length, time, forced, steps: steps - before.steps };
}

export async function measureDecoder(file, { tokenizer, end, threads, rounds }) {
  const context = await ml.createContext({ accelerated: false, numThreads: threads });
  const model = await loadOnnx(context, file);
  const results = {};
  for (const [name, schema] of Object.entries(SCHEMAS)) {
    const constraint = await compile({ schema, tokenizer, end });
    const rates = Object.fromEntries(Object.keys(WAYS).map((way) => [way, []]));
    const others = {};
    for (let round = 0; round <= rounds; round++) {
      const ways = round % 2 === 0 ? Object.entries(WAYS) : Object.entries(WAYS).reverse();
      for (const [way, change] of ways) {
        const { tokens, time, forced, steps } = await run(model, change(constraint), 1 + round);
        // The first one makes plans.
        if (round > 0) rates[way].push((1000 * (tokens - 1)) / time);
        others[way] = { tokens, forced: forced / tokens, steps };
      }
    }
    console.log(`\n ${name.padEnd(33)}tokens/s    forced   tokens of a step`);
    for (const way of Object.keys(WAYS)) {
      const { tokens, forced, steps } = others[way];
      const cells = [[median(rates[way]).toFixed(1), 8], [`${(100 * forced).toFixed(0)} %`, 10], [(tokens / steps).toFixed(2), 19]];
      console.log(` ${way.padEnd(33)}${cells.map(([text, width]) => text.padStart(width)).join('')}`);
    }
    results[name] = { rates, others };
  }
  context.destroy();
  return results;
}
