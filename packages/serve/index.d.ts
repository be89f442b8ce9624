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
  /** What computes. Default: a context of its own. */
  context?: MLContext;
  /** Of a context of its own. Default: `'cpu'`. */
  deviceType?: MLDeviceType;
  numThreads?: number;
  /** How its runs share the threads, as in `createContext`. Default: what waits decides. */
  performance?: MLPerformanceHint | number;
  /** Bytes of all models. Default: no limit; of `serve` 80 % of a container's limit. */
  memoryLimit?: number;
  /** Options for all models. Default: `batching: true` for models that compute rows apart. */
  onnx?: OnnxLoadOptions;
  /** Of language models: guesses tokens from the text before, as `speculate` of `generate`. Default: no guesses. */
  speculate?: 'prompt';
  /** Of each language model: the most bytes of earlier conversations that are kept, so that what begins alike is computed once. Default: 1 GiB. */
  promptCache?: number;
  /** So many of the latest versions of a model are loaded. Default: all. */
  versions?: number;
  /** A logger of pino. Default: no logs. */
  logger?: FastifyBaseLogger;
  /** Requests need this bearer token, apart from probes. */
  token?: string;
  /** TLS, as `https.createServer` takes it. */
  https?: { cert: string | Buffer; key: string | Buffer };
  /** `false`: the promise resolves before the models are loaded. Default: `true`. */
  waits?: boolean;
  /** Called while models are loaded at the start, with the bytes of the model under way, and its number among so many. */
  onProgress?: (progress: { model: string; number: number; count: number; loaded: number; total: number | undefined }) => void;
  /** The most bytes of a request. Default: 64 MiB. */
  bodyLimit?: number;
  /** The most elements of all inputs of a request. Default: 2²⁶. */
  maxElements?: number;
  /** Requests that are answered at a time; more are refused with 429. Default: 256. */
  maxInFlight?: number;
  /** The most bytes of all requests that have not arrived completely; those that have sent most are cut off. Default: 1 GiB. */
  maxReceiving?: number;
  /** Default: 4096. */
  maxConnections?: number;
  /** The most milliseconds of a run, if the request does not say. Default: 60,000. */
  timeout?: number;
  /** Milliseconds in which a request must have arrived. Default: 60,000. */
  requestTimeout?: number;
  /** Limits of OpenAI's interface and of rerankers. */
  text?: TextLimits;
}

/** What one request for text may ask for. */
export interface TextLimits {
  /** Choices: `n` for each prompt. Default: 16. */
  choices?: number;
  /** Tokens of a choice of a chat that names no number. Default: 4096. */
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
  /** Milliseconds that a client may take to read what was written of a stream. Default: 60,000. */
  stall?: number;
}

export interface RunOptions {
  version?: string;
  outputs?: string[];
  signal?: AbortSignal;
  /** As Triton has it: 1 is the highest, 0 the default. */
  priority?: number;
  /** Milliseconds. */
  timeout?: number;
}

/** A version of a model that is loaded. */
export interface LoadedModel {
  readonly name: string;
  readonly version: string;
  /** undefined if a model of the hub has no tensors to be called with. */
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
  /** Loads a model, or loads it again: what is served until then is served until the new one has run once. */
  load(name: string): Promise<void>;
  unload(name: string): Promise<void>;
  run(name: string, feeds: Record<string, OnnxInput>, options?: RunOptions): Promise<Record<string, OnnxResult>>;
}

/** The requests of a server. */
export interface Load {
  readonly running: number;
  /** Whether the server is not ready any more, because it ends soon. */
  readonly isLeaving: boolean;
  readonly isDraining: boolean;
  /** Refuses new requests with 503, and resolves when those that were accepted have ended. */
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
