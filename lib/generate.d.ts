/** `webnn-node/generate`: generates text with an ONNX decoder model. An extension of this package. */

import type { OnnxModel, OnnxValue } from './onnx.js';

/** Token numbers of a tokenizer. */
export type TokenIds = readonly number[] | readonly bigint[] | Int32Array | Uint32Array | BigInt64Array | Uint8Array | Uint16Array;

/** An `InferenceSession` of `webnn-node/onnxruntime`, which you may pass as a model. */
export interface GeneratingSession {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  release(): Promise<void>;
}

/** The tokens that are allowed next in one sequence. */
export interface TokenMatcher {
  /**
   * A bit for each token that is allowed next: bit `id % 32` of element `id >> 5`. At least one must be set. Tokens beyond the array are not
   * allowed. The array is read at once, so you may reuse it.
   */
  mask(): Uint32Array;
  /**
   * If present, it is called instead of `mask`, while the model computes the step. The array must not change until the next `push`.
   */
  maskAsync?(): Promise<Uint32Array>;
  /** Called with each token that was chosen. */
  push(id: number): void;
  /** Called after `push`: the tokens that must follow. The model sees them together. They count as pushed. */
  forced?(): ArrayLike<number>;
  /** Whether no token is allowed, so the sequence ends. */
  readonly isDone: boolean;
}

/** Which tokens are allowed: compiled by `@webnn-node/constrain`, or your own. */
export interface TokenConstraint {
  /** Called once for each sequence. */
  begin(): TokenMatcher;
}

/** The tokenizer, for the package `@webnn-node/constrain`. */
export interface ConstraintTokens {
  /**
   * The model's tokenizer: the path of `tokenizer.json` or of its folder, its parsed content, or a tokenizer of transformers.js or of
   * @huggingface/tokenizers. `generateText` knows it.
   */
  tokenizer?: string | object;
  /** The tokens that end a text. They are allowed where the text is complete. By default the files beside `tokenizer.json` name them. */
  end?: number | readonly number[];
}

/**
 * The allowed texts: JSON of a schema, a text that a regular expression matches as a whole, or a text of a grammar in
 * llguidance's variant of Lark. These need the package `@webnn-node/constrain`.
 */
export type Constraint =
  | TokenConstraint
  | (ConstraintTokens & { schema: object | boolean })
  | (ConstraintTokens & { regex: string | RegExp })
  | (ConstraintTokens & { grammar: string });

export interface GenerateOptions {
  /** The maximum number of new tokens of each sequence; 256 by default. `Infinity` sets no limit. */
  maxNewTokens?: number;
  /** 0, the default, selects the most probable token. Numbers below 1 favour probable tokens, numbers above 1 the others. */
  temperature?: number;
  /** Sample from this many of the most probable tokens; 0, the default, from all. */
  topK?: number;
  /** Sample from the most probable tokens that together have at least this probability; 1 by default. */
  topP?: number;
  /** Leave out tokens that are less probable than this fraction of the most probable one; 0 by default. */
  minP?: number;
  /** Divides positive logits, and multiplies negative ones, of tokens that occur in the prompt or the text. 1 by default. */
  repetitionPenalty?: number;
  /** Subtracted from the logits of generated tokens; 0 by default. */
  presencePenalty?: number;
  /** Subtracted from the logits of generated tokens for each occurrence; 0 by default. */
  frequencyPenalty?: number;
  /** Added to the logits of tokens, by their numbers; `-Infinity` forbids one. */
  bias?: Record<number, number> | ReadonlyMap<number, number>;
  /** The same seed gives the same tokens on every machine with the same logits. Without a seed tokens are unpredictable. */
  seed?: number;
  /** A token that ends a sequence, or a list of tokens and token sequences. They are part of the output. */
  stop?: number | bigint | readonly (number | bigint | TokenIds)[];
  /** Called with each token before the next one is computed. If it returns `true`, the sequence ends, for example at a stop string. */
  until?(token: GeneratedToken): boolean | void;
  /** How many sequences continue each prompt, at most 1024; 1 by default. */
  sequences?: number;
  /**
   * Reads the logits of the next token, and changes them in place or returns others. For a grammar, set the logits of forbidden tokens to
   * minus infinity. Penalties and bias are applied afterwards. A step calls the native side once without this function, twice with it.
   */
  logits?(
    logits: Float32Array,
    context: { sequence: number; prompt: Uint32Array | Int32Array; ids: number[] },
  ): Float32Array | void | Promise<Float32Array | void>;
  /**
   * Only tokens that it allows are chosen, whatever `logits` and `bias` say. A sequence ends when it is complete. If the constraint cannot be
   * compiled, the call rejects before anything runs.
   */
  constraint?: Constraint;
  /** Adds so many of the most probable tokens to each token, as `top`; at most 100, 0 by default. A step then calls the native side twice. */
  topLogprobs?: number;
  /**
   * Guesses the next tokens, and checks several guesses in one step (speculative decoding). With `'prompt'` the guess is the text that followed the same
   * words earlier; with `{ draft }`, the output of a smaller model with the same vocabulary. This is faster if guesses are often right; otherwise the
   * call stops guessing. It changes neither the tokens of a seed nor the probabilities. By default each step has one token.
   *
   * `guesses`, from 1 to 15, sets how many tokens are guessed each time. By default the number follows from how often guesses are right.
   */
  speculate?: 'prompt' | { prompt: true; guesses?: number } | { draft: OnnxModel | GeneratingSession; guesses?: number };
  /** More urgent generations run first, but none waits for ever. Default: that of the context. */
  priority?: 'high' | 'normal' | 'low';
  /** Milliseconds from the call. A generation that has not started by then rejects with a `TimeoutError`. Default: that of the context. */
  timeout?: number;
  /** Cancels the generation: the iterator rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Reuses the prefixes of other calls with this cache, and keeps the tokens of this call. Default: the cache of the model. */
  cache?: GenerationCache;
  /** How the keys and values of the past are kept. Default: the type of `cache`, or `'model'`. */
  cacheType?: CacheType;
  /**
   * Values of other inputs, which are not tokens, masks, positions or caches; the same for every step. An input with the batch dimension of
   * the tokens has one row for each prompt, or one row for all.
   */
  inputs?: Record<string, OnnxValue>;
  /** A LoRA adapter: values of the inputs that the model has for its weights. `inputs` takes precedence. */
  adapter?: Adapter;
  /**
   * For a decoder with the input `inputs_embeds` and no tokens: the model that embeds tokens, of the same context. It has one input, or further ones
   * with features that it puts in the place of tokens.
   * Further inputs of the decoder may have the names of its outputs.
   */
  embed?: OnnxModel | GeneratingSession;
  /**
   * With `embed`: embeddings that replace tokens, such as those of images. One row for each such token of the prompts, in their order.
   */
  features?: GenerateFeatures | readonly GenerateFeatures[];
  /**
   * The encoder of an encoder-decoder. It runs once, when the generation begins. The decoder gets its outputs: those with the names of its
   * inputs, and `last_hidden_state` as `encoder_hidden_states`. `encoder_attention_mask` is the encoder's `attention_mask`. What `inputs` has
   * takes precedence.
   */
  encoder?: GenerateEncoder;
  /**
   * If the export has two decoders: the one without caches (`decoder_model.onnx`). The first argument is then the other one
   * (`decoder_with_past_model.onnx`).
   */
  withoutPast?: OnnxModel | GeneratingSession;
}

/** Embeddings for the tokens of one number, which may be negative: values, or a model that makes them, such as a vision encoder. */
export type GenerateFeatures = GenerateGrid & (
  | { token: number; values: OnnxValue }
  | {
      token: number;
      /** The features are its output `image_features`, `audio_features`, `features` or `last_hidden_state`, or its only output. */
      model: OnnxModel | GeneratingSession;
      inputs: Record<string, OnnxValue>;
    }
);

/** Where features are. */
export interface GenerateGrid {
  /** For a decoder whose `position_ids` is [3, batch, sequence]: frames, rows and columns of the features of an image, or of each image in them. */
  grid?: readonly [number, number, number] | readonly (readonly [number, number, number])[];
}

/** An encoder and its inputs. */
export interface GenerateEncoder {
  model: OnnxModel | GeneratingSession;
  /** One row for each prompt, or one row for all. */
  inputs: Record<string, OnnxValue>;
}

export interface GeneratedToken {
  id: number;
  /** The model's log-probability of the token, before penalties, bias, constraint and temperature; 0 for one that is `forced`. */
  logprob: number;
  /** The index of the sequence. With several sequences for each prompt, those of the first prompt come first. */
  sequence: number;
  /** With `topLogprobs`: the most probable tokens of this step with the model's log-probabilities, the most probable first. Not for a token that is `forced`. */
  top?: { id: number; logprob: number }[];
  /** The constraint allowed no other token, so the token was not sampled. */
  forced?: true;
  /** On the last token of a sequence: why it ended. */
  finish?: 'stop' | 'length';
}

/**
 * A LoRA adapter for a model whose adapter weights are inputs. Calls with different adapters, or none, may run at the same time on one model, whose
 * own weights are in memory once.
 */
export class Adapter {
  private constructor();
  /** The inputs of the model for which the adapter has values. */
  readonly parameters: { name: string; dataType: string; shape: number[] }[];
  readonly adapterVersion: number;
  readonly modelVersion: number;
  /** Releases the weights. Running calls go on. */
  destroy(): void;
  /** `destroy()` for `using`, if the runtime has the symbol. */
  [Symbol.dispose](): void;
}

/**
 * Reads an adapter.
 * @param source an `.onnx_adapter` file, or its bytes, which are copied
 */
export function loadAdapter(source: string | URL | Uint8Array | ArrayBuffer): Promise<Adapter>;

/**
 * The type of the keys and values that `generate()` keeps: that of the model, or 8-bit integers with a scale for each token and head. `'int8'` is for
 * caches of float32 and float16 on the CPU.
 */
export type CacheType = 'model' | 'int8';

export interface GenerationCacheOptions {
  /** How keys and values are kept; `'model'` by default. Calls with this cache have the same type. */
  cacheType?: CacheType;
  /** The maximum size in bytes; 1 GiB by default. Beyond it, the cache releases the least recently used sequences. */
  maxBytes?: number;
  /** Shorter prefixes are neither kept nor reused; 1 by default. */
  minTokens?: number;
}

export interface GenerationCacheUsage {
  /** Bytes of all cached sequences. Sequences with a common prefix may share memory. */
  bytes: number;
  sequences: number;
  /** The number of prompts that reused cached tokens, at the start or while others computed the same prompt, and of other prompts. */
  hits: number;
  misses: number;
  /** Tokens of prompts that calls did not compute again. */
  reusedTokens: number;
}

/**
 * Caches prompts and generated tokens, for any number of calls of `generate()` on one model, one after the other or at once. A call computes only the
 * part of its prompt after the longest cached prefix. Concurrent calls compute a common prefix once.
 *
 * Calls without a cache share the cache of the model. It has at most 256 MiB, for prefixes of at least 64 tokens.
 */
export class GenerationCache {
  constructor(options?: GenerationCacheOptions);
  /** The number of cached tokens of each prompt of the latest call, when it began. */
  readonly known: number[];
  /** The size of the cache, and how often it was used. */
  memoryUsage(): GenerationCacheUsage & { maxBytes: number };
  /** Always keeps a sequence that begins with these tokens, even beyond `maxBytes`. A call has to compute them first. */
  pin(ids: TokenIds): void;
  /** Undoes `pin(ids)`. Returns `false` if these tokens are not pinned. */
  unpin(ids: TokenIds): boolean;
  /**
   * Writes the cache to a file, and replaces an existing one. Rejects for models with states or on a GPU. Sequences of calls with `inputs` are left
   * out.
   */
  save(file: string): Promise<void>;
  /**
   * Loads a cache from a file that `save` has written. Rejects if the file is damaged, belongs to another model, other options, another `cacheType` or
   * another version of this package, or has more than `maxBytes`.
   */
  static load(model: OnnxModel | GeneratingSession, file: string, options?: GenerationCacheOptions): Promise<GenerationCache>;
  /** Releases all cached sequences. Running calls go on, and cache nothing. */
  destroy(): void;
  /** `destroy()` for `using`, if the runtime has the symbol. */
  [Symbol.dispose](): void;
}

/** The iterator of a call. The call ends when the iterator ends, or is garbage-collected. */
export interface Generation<T> extends AsyncGenerator<T, void, void> {
  /** The number of tokens of each prompt that the cache had. Empty until the call has started. */
  readonly known: number[];
}

/**
 * Continues token sequences.
 * @param ids the tokens of a prompt, or of several prompts of any lengths
 */
export function generate(
  model: OnnxModel | GeneratingSession,
  ids: TokenIds | readonly TokenIds[],
  options?: GenerateOptions,
): Generation<GeneratedToken>;

/** The members of a tokenizer that `generateText` needs. Tokenizers of transformers.js and @huggingface/tokenizers have them. */
export interface TextTokenizer {
  encode(text: string, options?: any): number[] | { ids: number[] };
  /** The text of tokens. U+FFFD stands for an incomplete character. */
  decode(ids: number[], options?: any): string;
  /** For messages of a chat: the text of the prompt. */
  apply_chat_template?(messages: any, options?: any): unknown;
  /** The token that ends a text. */
  eos_token_id?: number | null;
}

/** A message of a chat; templates may read further members. */
export interface ChatMessage {
  role: string;
  content: unknown;
}

export interface GenerateTextOptions extends Omit<GenerateOptions, 'stop'> {
  /** Strings that end a sequence, also across tokens, and are not part of its text; or tokens, as in `generate`. */
  stop?: string | number | bigint | readonly (string | number | bigint | TokenIds)[];
  /** Which tokens have no text. By default those that the tokenizer skips as special, and those that it does not know. */
  isHidden?(id: number): boolean;
}

/** A piece of a sequence's text. */
export interface GeneratedText {
  /** Never ends within a character or a possible stop string. Empty if a sequence ends without more text. */
  text: string;
  sequence: number;
  /** The tokens whose text is complete with this piece. Tokens after a stop string are left out. */
  tokens: GeneratedToken[];
  /** The number of all tokens of the sequence so far, also of those whose text is incomplete. */
  count: number;
  /** On the last piece of a sequence: why it ended. */
  finish?: 'stop' | 'length';
}

/**
 * Continues texts. The token that ends a text ends its sequence, and is not a part of the text.
 * @param prompt a text; messages of a chat, for a tokenizer with a chat template; tokens; or several texts or lists of tokens
 */
export function generateText(
  model: OnnxModel | GeneratingSession,
  tokenizer: TextTokenizer,
  prompt: string | readonly ChatMessage[] | TokenIds | readonly string[] | readonly TokenIds[],
  options?: GenerateTextOptions,
): Generation<GeneratedText>;

/** Decodes tokens one by one. Returns text as soon as no later token can change it. */
export class Detokenizer {
  /**
   * @param options `prompt`: the tokens before, whose text is not repeated; only the last ones are looked at. `isHidden`: which tokens have no
   * text, by default special ones.
   */
  constructor(tokenizer: TextTokenizer, options?: { prompt?: ArrayLike<number>; isHidden?: (id: number) => boolean });
  /** Adds a token, and returns the text that is complete now. It never ends within a character. */
  push(id: number): string;
  /** Returns the incomplete text that is left. */
  end(): string;
}

/** Ends a text before the first of several strings. */
export class StopStrings {
  constructor(stops: readonly string[]);
  /** The string that ended the text. */
  found: string | undefined;
  /** The text after the string that was found. */
  readonly rest: string;
  /** Adds text, and returns the part that cannot belong to a stop string. */
  push(text: string): string;
  /** Returns the text that is left, at the end. */
  end(): string;
}

export interface GenerationUsage {
  /** Steps of sequences so far, of all calls on the model. */
  steps: number;
  /** Runs of the model that computed these steps: fewer, because calls run their steps together. */
  runs: number;
  /** Tokens of prompts that were computed in the same runs as the steps of other calls. */
  promptTokens: number;
  /** Why the steps of this model run one after the other. Absent if they run together, or if no two calls have met yet. */
  reason?: string;
  /** The number of guesses of calls with `speculate` that were checked, and that were right. */
  guessed: number;
  accepted: number;
  /** Why calls with `speculate` generate one token for each step with this model. Absent if they can guess, or if this is not known yet. */
  speculationReason?: string;
  /** The cache of calls without a `GenerationCache`, or the sum of several: calls with a different `cacheType` or `embed` have a cache of their own. */
  cache: GenerationCacheUsage;
}

/** Figures of all calls on a model. */
export function generationUsage(model: OnnxModel | GeneratingSession): Promise<GenerationUsage>;
