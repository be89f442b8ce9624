/** A server of models on webnn-node: the Open Inference Protocol over REST and gRPC, and OpenAI's interface. */

import type { FastifyBaseLogger, FastifyInstance } from 'fastify';
import type { MLContext, MLDeviceType, MLPerformanceHint } from 'webnn-node';
import type { OnnxInput, OnnxLoadOptions, OnnxModel, OnnxResult } from 'webnn-node/onnx';

export interface ServeOptions {
  /**
   * A folder of models (`NAME.onnx`, `NAME/VERSION/model.onnx`, `NAME/` of the Hugging Face Hub), or files and folders by the names of models.
   */
  models: string | Record<string, string>;
  /** `models` is the file or the folder of one model, with this name. */
  name?: string;
  /** The context of the models. Default: the server creates one. */
  context?: MLContext;
  /** Device of the context that the server creates. Default: `'cpu'`. */
  deviceType?: MLDeviceType;
  /** Threads of that context, as in `createContext`. */
  numThreads?: number;
  /** How its runs share the threads, as in `createContext`. Default: depends on the load. */
  performance?: MLPerformanceHint | number;
  /** The maximum number of bytes of all models. Default: no limit; for `webnn-node serve`, 80 % of a container's limit. */
  memoryLimit?: number;
  /** Options for all models. Default: `batching: true` for models that compute each row independently. */
  onnx?: OnnxLoadOptions;
  /** For language models: guesses tokens from the earlier text, like `speculate` of `generate`. Default: no guesses. */
  speculate?: 'prompt';
  /** For each language model: the maximum size in bytes of the cache of common prefixes. Default: 1 GiB. */
  promptCache?: number;
  /** Number of the latest versions of each model to load. Default: all. */
  versions?: number;
  /** A logger of pino. Default: no logs. */
  logger?: FastifyBaseLogger;
  /** All requests except probes need this bearer token. */
  token?: string;
  /** Options for TLS, as in `https.createServer`. */
  https?: { cert: string | Buffer; key: string | Buffer };
  /** `false`: the promise resolves before the models are loaded. Default: `true`. */
  waits?: boolean;
  /** Called while models are loaded at the start, with the loaded bytes of the current model, its number, and the number of models. */
  onProgress?: (progress: { model: string; number: number; count: number; loaded: number; total: number | undefined }) => void;
  /** The maximum size of a request in bytes. Default: 64 MiB. */
  bodyLimit?: number;
  /** The maximum number of elements in all inputs of a request. Default: 2²⁶. */
  maxElements?: number;
  /** The maximum number of requests at a time; others are refused with 429. Default: 256. */
  maxInFlight?: number;
  /** The maximum size in bytes of all incomplete requests; beyond it the largest ones are cut off. Default: 1 GiB. */
  maxReceiving?: number;
  /** Default: 4096. */
  maxConnections?: number;
  /** The timeout of a run in milliseconds, if the request has none. Default: 60,000. */
  timeout?: number;
  /** Milliseconds in which a request must have arrived. Default: 60,000. */
  requestTimeout?: number;
  /** Limits of OpenAI's interface and of rerankers. */
  text?: TextLimits;
}

/** The limits of a request for text. */
export interface TextLimits {
  /** Choices: `n` for each prompt. Default: 16. */
  choices?: number;
  /** Tokens of a chat's choice, if the request sets no number. Default: 4096. */
  maxTokens?: number;
  /** Characters of all texts. Default: 2²⁰. */
  characters?: number;
  /** Texts to embed. Default: 2048. */
  inputs?: number;
  /** Texts to rank. Default: 1024. */
  documents?: number;
  /** Default: 64. */
  prompts?: number;
  /** Default: 2048. */
  messages?: number;
  /** Default: 128. */
  tools?: number;
  /** Stop strings. Default: 16. */
  stops?: number;
  /** Characters of a stop string. Default: 1024. */
  stopCharacters?: number;
  /** Objects inside each other. Default: 64. */
  depth?: number;
  /** Milliseconds of a request. Default: 600,000. */
  timeout?: number;
  /** Milliseconds after which a stream ends if its client does not read. Default: 60,000. */
  stall?: number;
}

export interface RunOptions {
  version?: string;
  outputs?: string[];
  signal?: AbortSignal;
  /** As in Triton: 1 is the highest, 0 the default. */
  priority?: number;
  /** Milliseconds. */
  timeout?: number;
}

/** A loaded version of a model. */
export interface LoadedModel {
  readonly name: string;
  readonly version: string;
  /** undefined for a model of the hub that is not served for tensors. */
  readonly onnx: OnnxModel | undefined;
}

/** The models of a server. */
export interface Registry {
  readonly isReady: boolean;
  all(): LoadedModel[];
  latest(): LoadedModel[];
  versions(name: string): string[];
  get(name: string, version?: string): LoadedModel;
  list(): Promise<{ name: string; version: string; state: string; reason: string }[]>;
  /** Loads a model, or replaces a loaded one. The old model serves requests until the new one has run once. */
  load(name: string): Promise<void>;
  unload(name: string): Promise<void>;
  run(name: string, feeds: Record<string, OnnxInput>, options?: RunOptions): Promise<Record<string, OnnxResult>>;
}

/** The requests of a server. */
export interface Load {
  readonly running: number;
  /** Whether the server reports "not ready", because it ends soon. */
  readonly isLeaving: boolean;
  readonly isDraining: boolean;
  /** Refuses new requests with 503, and resolves when the accepted ones have ended. */
  drain(): Promise<void>;
}

/** An instance of fastify: `listen()` it, add routes, `close()` it. */
export type Server = FastifyInstance & {
  readonly registry: Registry;
  readonly load: Load;
  /** Resolves when all models are loaded and have run once. */
  readonly loaded: Promise<void>;
};

export function createServer(options: ServeOptions): Promise<Server>;

/** Speaks gRPC for a server until it is closed. Resolves with the port. */
export function listenGrpc(server: Server, options: { host?: string; port: number; token?: string; tls?: { cert: string | Buffer; key: string | Buffer } }): Promise<number>;

/** What `npx webnn-node serve` does. Resolves with the exit code when the process has been told to end. */
export function serve(
  options: Omit<ServeOptions, 'logger' | 'https' | 'waits'> & {
    /** Default: `'127.0.0.1'`. */
    host?: string;
    /** Default: 8000. */
    port?: number;
    /** Default: no gRPC. */
    grpcPort?: number;
    /** Milliseconds to answer what is under way after SIGTERM. Default: 25,000. */
    grace?: number;
    /** Milliseconds after SIGTERM in which it is not ready, and still answers: load balancers need time to hear of it. Default: 0. */
    drainDelay?: number;
    logLevel?: string;
    tlsCert?: string;
    tlsKey?: string;
  },
): Promise<number>;

/** What a request is refused with. */
export class ServeError extends Error {
  readonly kind: string;
  readonly statusCode: number;
  readonly grpcStatus: string;
  readonly retryAfter: number | undefined;
}
