/** Text, token by token, with an ONNX model of a decoder: an extension of this package, `webnn-node/generate`. */

import type { OnnxModel, OnnxValue } from './onnx.js';

/** Tokens by their numbers, as a tokenizer gives them. */
export type TokenIds = readonly number[] | readonly bigint[] | Int32Array | Uint32Array | BigInt64Array | Uint8Array | Uint16Array;

/** What there is of an `InferenceSession` of `webnn-node/onnxruntime`, which stands for its model. */
export interface GeneratingSession {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  release(): Promise<void>;
}

export interface GenerateOptions {
  /** Tokens of each sequence at most; 256 by default. `Infinity` allows all. */
  maxNewTokens?: number;
  /** 0, the default, takes the most probable token. Numbers below 1 make probable tokens more so, those above 1 less. */
  temperature?: number;
  /** How many of the most probable tokens are left to chance; 0, the default, for all. */
  topK?: number;
  /** The most probable tokens that together have at least this probability are left to chance; 1 by default. */
  topP?: number;
  /** Tokens that are less probable than this part of the most probable one are left out; 0 by default. */
  minP?: number;
  /** Logits of tokens that occur already, in the prompt too, are divided by this, or multiplied where they are negative; 1 by default. */
  repetitionPenalty?: number;
  /** Subtracted from the logits of tokens that were generated; 0 by default. */
  presencePenalty?: number;
  /** Subtracted from them for each time that they were generated; 0 by default. */
  frequencyPenalty?: number;
  /** Added to the logits of tokens, by their numbers; `-Infinity` forbids one. */
  bias?: Record<number, number> | ReadonlyMap<number, number>;
  /** The same seed gives the same tokens on every machine whose logits are the same; without one nobody can foresee them. */
  seed?: number;
  /** A token behind which nothing follows, or several, or sequences of tokens among them. They are among what is given. */
  stop?: number | bigint | readonly (number | bigint | TokenIds)[];
  /** How many sequences continue each prompt; 1 by default. */
  sequences?: number;
  /**
   * Sees the logits of the next token, and changes them in place or gives others back: a grammar sets those of tokens that may not come to
   * minus infinity. Penalties and bias are added afterwards. Without it a step crosses to the native side once, with it twice.
   */
  logits?(
    logits: Float32Array,
    context: { sequence: number; prompt: Uint32Array; ids: number[] },
  ): Float32Array | void | Promise<Float32Array | void>;
  /** Ends it: the iterator rejects with the signal's reason. */
  signal?: AbortSignal;
  /** What is remembered of earlier calls, and what is to be remembered of this one. */
  cache?: GenerationCache;
  /** Values of inputs that are neither tokens, masks, positions nor caches, the same for every step. */
  inputs?: Record<string, OnnxValue>;
}

export interface GeneratedToken {
  id: number;
  /** The logarithm of the probability that the model gives to the token, before penalties, bias and temperature. */
  logprob: number;
  /** Which sequence it continues: with several of each prompt, those of the first prompt come first. */
  sequence: number;
  /** Of the last token of a sequence: why it is. */
  finish?: 'stop' | 'length';
}

/**
 * What a decoder remembers of sequences, for the next call: a prompt that begins like one of them, or goes on behind it, is computed from
 * where they differ on. Several prompts that begin like the same sequence get copies.
 */
export class GenerationCache {
  constructor();
  /** How many tokens of each prompt of the last call were remembered. */
  readonly known: number[];
  /** Lets go of everything that is remembered. */
  destroy(): void;
  /** `destroy()`, for `using`; there where the runtime has the symbol. */
  [Symbol.dispose](): void;
}

/**
 * Continues sequences of tokens.
 * @param ids the tokens of a prompt, or of several of any lengths
 */
export function generate(
  model: OnnxModel | GeneratingSession,
  ids: TokenIds | readonly TokenIds[],
  options?: GenerateOptions,
): AsyncGenerator<GeneratedToken, void, void>;
