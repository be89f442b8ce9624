'use strict';

// What is counted of text: tokens, and the time to the first one.

const { Counter, Histogram } = require('prom-client');
const { generationUsage } = require('webnn-node/generate');

const SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

class TextMetrics {
  #prompt;
  #cached;
  #generated;
  #first;
  #between;

  /**
   * @param {import('prom-client').Registry} register
   * @param {() => {name: string, model: import('webnn-node/generate').GeneratingSession}[]} decoders those that are served
   */
  constructor(register, decoders) {
    const more = { labelNames: ['model'], registers: [register] };
    this.#prompt = new Counter({ name: 'webnn_prompt_tokens_total', help: 'Tokens of prompts and of texts that were embedded or ranked', ...more });
    this.#cached = new Counter({ name: 'webnn_cached_prompt_tokens_total', help: 'Tokens of prompts that were not computed again', ...more });
    this.#generated = new Counter({ name: 'webnn_generated_tokens_total', help: 'Tokens that were generated', ...more });
    this.#first = new Histogram({ name: 'webnn_time_to_first_token_seconds', help: 'Time until the first token of a request', buckets: SECONDS, ...more });
    this.#between = new Histogram({ name: 'webnn_generation_seconds', help: 'Time from the first token of a request to its last', buckets: SECONDS, ...more });
    // The engine counts them; here they are only read.
    const read = async (metric, of) => {
      metric.reset();
      for (const { name, model } of decoders()) {
        // A model may be unloaded meanwhile.
        const usage = await generationUsage(model).catch(() => undefined);
        if (usage !== undefined) metric.inc({ model: name }, of(usage));
      }
    };
    const counter = (name, help, of) => new Counter({ name, help, ...more, collect() { return read(this, of); } });
    counter('webnn_generation_steps_total', 'Steps of sequences', ({ steps }) => steps);
    counter('webnn_generation_runs_total', 'Runs of the network that these steps took: fewer, because sequences take their steps together', ({ runs }) => runs);
  }

  prompt(model, count) {
    this.#prompt.inc({ model }, count);
  }

  /**
   * Begins to count a request.
   * @param {string} model
   * @param {{prompts: number[][]}} parsed
   */
  begin(model, { prompts }) {
    const begin = performance.now();
    const promptTokens = prompts.reduce((sum, ids) => sum + ids.length, 0);
    const counts = new Map();
    let cached = 0;
    const total = () => [...counts.values()].reduce((sum, count) => sum + count, 0);
    const label = { model };
    this.prompt(model, promptTokens);
    const [first, between, generated, reused] = [this.#first, this.#between, this.#generated, this.#cached];
    return {
      /** As clients see it. */
      get figures() {
        return { prompt_tokens: promptTokens, completion_tokens: total(), total_tokens: promptTokens + total(), prompt_tokens_details: { cached_tokens: cached } };
      },
      async *watch(pieces) {
        let firstAt;
        try {
          for await (const piece of pieces) {
            if (firstAt === undefined) {
              firstAt = performance.now();
              first.observe(label, (firstAt - begin) / 1000);
              cached = piece.cached;
              reused.inc(label, cached);
            }
            counts.set(piece.sequence, piece.count);
            yield piece;
          }
        } finally {
          generated.inc(label, total());
          if (firstAt !== undefined) between.observe(label, (performance.now() - firstAt) / 1000);
        }
      },
    };
  }
}

module.exports = { TextMetrics };
