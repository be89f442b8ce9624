/** Generates text with an ONNX decoder model: an extension of this package, `webnn-node/generate`. */

import type { OnnxModel, OnnxValue } from './onnx.js';

/** Token numbers of a tokenizer. */
export type TokenIds = readonly number[] | readonly bigint[] | Int32Array | Uint32Array | BigInt64Array | Uint8Array | Uint16Array;

/** An `InferenceSession` of `webnn-node/onnxruntime`, which you may pass as a model. */
export interface GeneratingSession {
  readonly inputNames: readonly string[];
  readonly outputNames: readonly string[];
  release(): Promise<void>;
}

/** Bits of the tokens that may come next in one sequence. */
export interface TokenMatcher {
  /**
   * The tokens that may come next: bit `id % 32` of element `id >> 5` for each. At least one must be there. Tokens beyond the array may not
   * come. The array is read at once and may be reused.
   */
  mask(): Uint32Array;
  /** Called with each token that was chosen. */
  push(id: number): void;
  /** Called after `push`: the tokens that can only follow. The model sees them together. They count as pushed. */
  forced?(): ArrayLike<number>;
  /** Whether nothing may follow, so that the sequence ends. */
  readonly isDone: boolean;
}

/** Which tokens may come: compiled by `@webnn-node/constrain`, or your own. */
export interface TokenConstraint {
  /** Called once for each sequence. */
  begin(): TokenMatcher;
}

/** What the package `@webnn-node/constrain` needs to know of a tokenizer. */
export interface ConstraintTokens {
  /**
   * The model's tokenizer: the path of `tokenizer.json` or of its folder, its parsed content, or a tokenizer of transformers.js or of
   * @huggingface/tokenizers. `generateText` knows it.
   */
  tokenizer?: string | object;
  /** The tokens that end a text. They may come where the text is complete. By default those that the files beside `tokenizer.json` name. */
  end?: number | readonly number[];
}

/**
 * What a text must be: JSON by a schema, a text that a regular expression matches from its beginning to its end, or a text of a grammar in
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
  /** 0, the default, takes the most probable token. Numbers below 1 favour probable tokens, numbers above 1 the others. */
  temperature?: number;
  /** Sample from this many of the most probable tokens; 0, the default, from all. */
  topK?: number;
  /** Sample from the most probable tokens that together have at least this probability; 1 by default. */
  topP?: number;
  /** Leave out tokens that are less probable than this fraction of the most probable one; 0 by default. */
  minP?: number;
  /** Divides the logits of tokens that occur already, also in the prompt; multiplies negative ones. 1 by default. */
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
  /** Called with each token, before the next one is computed: `true` ends the token's sequence, for example at a stop string. */
  until?(token: GeneratedToken): boolean | void;
  /** How many sequences continue each prompt; 1 by default. */
  sequences?: number;
  /**
   * Reads the logits of the next token, and changes them in place or returns others. For a grammar, set the logits of forbidden tokens to
   * minus infinity. Penalties and bias are applied afterwards. A step calls the native side once without this function, twice with it.
   */
  logits?(
    logits: Float32Array,
    context: { sequence: number; prompt: Uint32Array; ids: number[] },
  ): Float32Array | void | Promise<Float32Array | void>;
  /**
   * Only tokens that it allows are chosen, whatever `logits` and `bias` say. A sequence ends when it is complete. What cannot be compiled
   * rejects before anything runs.
   */
  constraint?: Constraint;
  /** Tells so many of the most probable tokens of each step, at most 100, as `top`; 0 by default. A step then calls the native side twice. */
  topLogprobs?: number;
  /**
   * Guesses the next tokens, and checks several guesses in one step: with `'prompt'`, what followed the last time the text said the same; with
   * `{ draft }`, what a smaller model with the same vocabulary says. Faster where guesses are often right; it stops guessing where they are not.
   * It changes neither the tokens of a seed nor how probable any tokens are. Absent: one token for each step.
   *
   * `guesses`, from 1 to 15, sets how many tokens are guessed each time. By default as many as are worth it.
   */
  speculate?: 'prompt' | { prompt: true; guesses?: number } | { draft: OnnxModel | GeneratingSession; guesses?: number };
  /** The steps of more urgent generations go first. None waits for ever for more urgent ones. Default: that of the context. */
  priority?: 'high' | 'normal' | 'low';
  /** Milliseconds from the call. A generation that has not begun by then ends with a `TimeoutError`. Default: that of the context. */
  timeout?: number;
  /** Cancels the generation: the iterator rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Reuses what other calls with this cache have computed, and keeps what this call computes. Default: one of the model. */
  cache?: GenerationCache;
  /**
   * Values of other inputs, which are not tokens, masks, positions or caches; the same for every step. An input with the batch dimension of
   * the tokens has one row for each prompt, or one row for all.
   */
  inputs?: Record<string, OnnxValue>;
  /** An adapter (LoRA): values of inputs that the model has for its weights. What `inputs` has goes first. */
  adapter?: Adapter;
  /** For a decoder with the input `inputs_embeds` and no tokens: the model that embeds tokens. It has one input, and is of the same context. */
  embed?: OnnxModel | GeneratingSession;
  /**
   * With `embed`: embeddings in the place of tokens, such as those of images: one row for each such token of the prompts, in their order.
   */
  features?: GenerateFeatures | readonly GenerateFeatures[];
  /**
   * The encoder of an encoder-decoder. It runs once, when the generation begins. The decoder gets its outputs: those with the names of its
   * inputs, and `last_hidden_state` as `encoder_hidden_states`. `encoder_attention_mask` is the encoder's `attention_mask`. What `inputs` has
   * goes first.
   */
  encoder?: GenerateEncoder;
  /**
   * Of an export with two decoders the one without caches (`decoder_model.onnx`). The first argument is the other one
   * (`decoder_with_past_model.onnx`).
   */
  withoutPast?: OnnxModel | GeneratingSession;
}

/** Embeddings for the tokens of one number: values, or a model that makes them, such as a vision encoder. */
export type GenerateFeatures =
  | { token: number; values: OnnxValue }
  | {
      token: number;
      /** Its output `image_features`, `audio_features`, `features` or `last_hidden_state` has them, or its only output. */
      model: OnnxModel | GeneratingSession;
      inputs: Record<string, OnnxValue>;
    };

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
  /** The constraint allowed no other token, so none was chosen. */
  forced?: true;
  /** On the last token of a sequence: why it ended. */
  finish?: 'stop' | 'length';
}

/**
 * An adapter (LoRA) for a model whose adapter weights are inputs. Calls with different adapters, or none, run at once on one model, which has
 * its own weights once.
 */
export class Adapter {
  private constructor();
  /** The inputs of the model that it has values for. */
  readonly parameters: { name: string; dataType: string; shape: number[] }[];
  readonly adapterVersion: number;
  readonly modelVersion: number;
  /** Releases the weights. Calls under way go on. */
  destroy(): void;
  /** `destroy()` for `using`, if the runtime has the symbol. */
  [Symbol.dispose](): void;
}

/**
 * Reads an adapter.
 * @param source an `.onnx_adapter` file, or its bytes, which are copied
 */
export function loadAdapter(source: string | URL | Uint8Array | ArrayBuffer): Promise<Adapter>;

export interface GenerationCacheOptions {
  /** Bytes at most; 1 GiB by default. Beyond it, the cache releases the sequences that no call has used for longest. */
  maxBytes?: number;
  /** Shorter beginnings are neither kept nor reused; 1 by default. */
  minTokens?: number;
}

export interface GenerationCacheUsage {
  /** Bytes of all kept sequences. Sequences that begin alike may share them. */
  bytes: number;
  sequences: number;
  /** Prompts that began with tokens that were known, and others. */
  hits: number;
  misses: number;
  /** Tokens that calls did not compute again. */
  reusedTokens: number;
}

/**
 * Keeps what the model has seen, for any number of calls of `generate()` on one model, one after the other or at once. A prompt is computed
 * only behind the longest beginning that is known. Prompts that begin alike are computed once also while they are under way.
 *
 * Calls without a cache share one of the model, of at most 256 MiB, for beginnings of at least 64 tokens.
 */
export class GenerationCache {
  constructor(options?: GenerationCacheOptions);
  /** The number of known tokens of each prompt of the latest call, when it began. */
  readonly known: number[];
  /** What is kept, and how often it was of use. */
  memoryUsage(): GenerationCacheUsage & { maxBytes: number };
  /** Always keeps a sequence that begins with these tokens, even beyond `maxBytes`. A call has to compute them first. */
  pin(ids: TokenIds): void;
  /** Takes `pin(ids)` back. Returns `false` if these tokens are not pinned. */
  unpin(ids: TokenIds): boolean;
  /**
   * Writes what is kept into a file, in the place of what was there. Rejects for models with states or on a GPU. What calls with `inputs` have
   * kept is left out.
   */
  save(file: string): Promise<void>;
  /**
   * A cache with what `save` has written. Rejects if the file is damaged, or of another model, of one with other options, or of another
   * version of this package; and if it has more than `maxBytes`.
   */
  static load(model: OnnxModel | GeneratingSession, file: string, options?: GenerationCacheOptions): Promise<GenerationCache>;
  /** Releases all kept sequences. Calls under way go on, and keep nothing. */
  destroy(): void;
  /** `destroy()` for `using`, if the runtime has the symbol. */
  [Symbol.dispose](): void;
}

/** What a call gives. */
export interface Generation<T> extends AsyncGenerator<T, void, void> {
  /** The number of known tokens of each prompt, when the call began: the cache had them. Empty before. */
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

/** What `generateText` needs of a tokenizer. Those of transformers.js and of @huggingface/tokenizers have it. */
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
  /** Strings that end a sequence and are not a part of its text, also across tokens; or what `stop` of `generate` is. */
  stop?: string | number | bigint | readonly (string | number | bigint | TokenIds)[];
  /** Which tokens have no text. By default those that the tokenizer skips as special, and those that it does not know. */
  isHidden?(id: number): boolean;
}

/** A piece of a sequence's text. */
export interface GeneratedText {
  /** Never a part of a character, and nothing that a stop string may begin in. It is empty for the end of a sequence without more text. */
  text: string;
  sequence: number;
  /** The tokens whose text is complete with this piece. Those behind a stop string never come. */
  tokens: GeneratedToken[];
  /** All tokens of the sequence so far, also those that wait. */
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

/** Makes text of tokens, one by one, as far as no later token can change it. */
export class Detokenizer {
  /**
   * @param options `prompt`: the tokens before, whose text is not repeated; only the last ones are looked at. `isHidden`: which tokens have no
   * text, by default special ones.
   */
  constructor(tokenizer: TextTokenizer, options?: { prompt?: ArrayLike<number>; isHidden?: (id: number) => boolean });
  /** Adds a token, and returns the text that is complete now: never a part of a character. */
  push(id: number): string;
  /** The text that waited for more. */
  end(): string;
}

/** Ends text before one of several strings, whichever comes first. */
export class StopStrings {
  constructor(stops: readonly string[]);
  /** The string that ended the text. */
  found: string | undefined;
  /** The text behind the string that was found. */
  readonly rest: string;
  /** Adds text, and returns what no string can begin in. */
  push(text: string): string;
  /** The text that waited, when no more comes. */
  end(): string;
}

export interface GenerationUsage {
  /** Steps of sequences so far, of all calls on the model. */
  steps: number;
  /** Runs of the model that these steps took: fewer, because calls run their steps together. */
  runs: number;
  /** Why the steps of this model run one after the other. Absent if they run together, or if no two calls have met yet. */
  reason?: string;
  /** Guesses of calls with `speculate` that were checked, and those that were right. */
  guessed: number;
  accepted: number;
  /** Why calls with `speculate` generate one token for each step with this model. Absent if they can guess, or if that was not found out yet. */
  speculationReason?: string;
  /** What calls without a `GenerationCache` keep for each other. */
  cache: GenerationCacheUsage;
}

/** What the steps of all calls on a model took. */
export function generationUsage(model: OnnxModel | GeneratingSession): Promise<GenerationUsage>;
