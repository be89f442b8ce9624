/** `webnn-node/onnx`: runs ONNX models as WebNN graphs. An extension of this package. */

import type { MLContext, MLFPMath, MLGraph, MLMemoryUsage, MLOperandDataType, MLTensor } from '../index.js';

/** An input of a model. Doubles and bfloat16 of the file are float32 here, booleans uint8, 16-bit and 4-bit integers int32. */
export interface OnnxSignature {
  name: string;
  /** The type of the elements in the file, as onnxruntime names it: `'bool'`, `'float64'`, `'float32'`, and so on. */
  type: string;
  dataType: MLOperandDataType;
  /**
   * The size of each dimension, or its name in the file if the model leaves it open: all dimensions with that name have the same size.
   * A dimension without a name is `input:axis`. null if the number of dimensions is unknown. For a sequence it is the shape of its
   * tensors; a name may be another size in each tensor.
   */
  shape: (number | string)[] | null;
  /** `true` for an input that you need not pass: the file has a value for it, or it is an optional value. */
  optional?: true;
  /** `true` for a sequence: a run takes an array of tensors. */
  sequence?: true;
}

/** An output of a model. It is exact if all shapes of the model are known; otherwise it is what the file declares. */
export interface OnnxOutputSignature {
  name: string;
  /** null if the file does not declare it. */
  type: string | null;
  dataType: MLOperandDataType | null;
  /** A name is that of an input's dimension; null is a size that only a run can tell, or an undeclared shape. */
  shape: (number | string | null)[] | null;
  /** `true` for an optional value, which is null if it has no content. */
  optional?: true;
  /** `true` for a sequence: a run returns an array of tensors. */
  sequence?: true;
}

/** Float16Array, if TypeScript's library has it. */
type Float16 = typeof globalThis extends { Float16Array: { prototype: infer T } } ? T : never;

/** The array for a data type: Float32Array for float32, BigInt64Array for int64, and so on; Uint16Array for float16 if there is no Float16Array. */
export type OnnxArray =
  | Float32Array
  | Float16
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray;

/** Elements with a shape: a value that a model takes or returns. */
export class OnnxTensor {
  constructor(dataType: MLOperandDataType, data: OnnxArray, shape: readonly number[]);
  readonly dataType: MLOperandDataType;
  readonly data: OnnxArray;
  readonly shape: readonly number[];
  /** The shape, with onnxruntime's name. */
  readonly dims: readonly number[];
  /** The data type, with onnxruntime's name. */
  readonly type: MLOperandDataType;
}

/**
 * A value for an input. An array is enough if only one shape is possible: all sizes are known, or one is open and follows from the
 * number of elements.
 */
export type OnnxValue =
  | OnnxArray
  | OnnxTensor
  | { data: OnnxArray; shape: readonly number[]; dataType?: string }
  | { data: OnnxArray; dims: readonly number[]; type?: string };

/** What you pass for an input: a value; for a sequence an array of them; null or nothing for an optional value without content. */
export type OnnxInput = OnnxValue | readonly OnnxValue[] | null | undefined;

/** What an output returns: a tensor; for a sequence an array of them; null for an optional value without content. */
export type OnnxResult = OnnxTensor | OnnxTensor[] | null;

/** How runs are joined. */
export interface OnnxBatchingOptions {
  /** The maximum number of rows of a joined run, from 2 to 1024. Default: 16. */
  maxSize?: number;
  /** Milliseconds that a run may wait for others while no run is active, up to 60,000. Default: 0. */
  maxDelay?: number;
  /** The maximum number of elements in the largest input of a joined run, padding included. Default: no limit. */
  maxElements?: number;
}

/** What has been joined. */
export interface OnnxBatching extends Required<OnnxBatchingOptions> {
  /** The dimension with the rows, of each input that has rows. */
  readonly axes: Record<string, number>;
  /**
   * The dimension with the length of a text, of each input that has one: texts of different lengths are padded and joined. If there is none,
   * `refused` says why.
   */
  readonly lengths: { axes: Record<string, number>; refused: { node: string; operator: string; reason: string }[] };
  /** The number of `run()` calls that could be joined, of the runs that computed them, and of the calls that were joined. */
  readonly requests: number;
  readonly runs: number;
  readonly joined: number;
  /**
   * Whether waiting runs are joined at present. Without `maxDelay` both ways are measured under load: runs go one by one if that is faster.
   */
  readonly joins: boolean;
  /** The number of joined calls with padding, for texts of different lengths. */
  readonly filled: number;
  /** Why runs of some shapes were not joined. The node is empty if the reason is the model as a whole. */
  readonly refused: { node: string; operator: string; reason: string }[];
}

export interface OnnxLoadOptions {
  /**
   * Sizes of open dimensions that never change, by their names in the file, or as `input:axis` if they have no name or share it. A
   * dimension whose name is arithmetic on others, such as `past_length + length`, follows from these, or they from it. If you pass a
   * size as `input:axis` for a dimension with a name, it applies to the name, unless you pass the name, too.
   */
  freeDimensions?: Record<string, number>;
  /**
   * Values of inputs that never change. The model then has no such inputs, and values that depend on them are computed when it is loaded.
   * For example, a model that branches on a sampling rate is loaded for that rate.
   */
  constants?: Record<string, OnnxArray>;
  /**
   * Names of inputs that runs may pass although the file has a value for them (an initializer). Other inputs with a value are constants, so
   * more can be computed when the model is loaded.
   */
  overridable?: string[];
  /**
   * The maximum number of bytes that the model may use when it runs: weights, inputs, outputs and intermediate values. A model that needs more is
   * refused with an `OperationError` before memory is allocated. Default: 1 GiB, plus 64 bytes for each byte of the model's files and
   * 256 for each byte of its inputs: more than networks use, less than a small malicious file may ask for. `Infinity` allows all. The work
   * of the import is limited, too; a larger number allows more of it.
   */
  maxBytes?: number;
  /**
   * The maximum number of bytes that the model may hold: packed weights, constants, intermediate values and caches, as `model.memoryUsage()` counts
   * them. Calls that would exceed it are refused with a `QuotaExceededError`. Default: no limit but the context's.
   */
  memoryLimit?: number;
  /** How float32 products may be computed, as in `createContext`. Default: `context.fpMath`. */
  fpMath?: MLFPMath;
  /** Shown in messages and readable as `model.label`. */
  label?: string;
  /**
   * The hash of the model's own bytes, as in Subresource Integrity: `sha256-`, `sha384-` or `sha512-` and the digest in base64; several are
   * separated by spaces, and one of the strongest algorithm must match. Other bytes are refused with an `OperationError`. For external data
   * see `externalIntegrity`.
   */
  integrity?: string;
  /**
   * Files with the model's external data, by the location that the model has for each. They take precedence over files in the model's folder; a model
   * that is not loaded from a path needs them.
   */
  externalData?: Record<string, OnnxSource>;
  /**
   * Hashes of external data, as in `integrity`, by the location that the model has for each file. They must include every file that the model
   * reads. Default: external data is not checked.
   */
  externalIntegrity?: Record<string, string>;
  /**
   * Joins waiting runs of the model into one. If the rows of the model depend on each other, it is refused with a
   * `NotSupportedError` that names the node. Default: `false`.
   */
  batching?: boolean | OnnxBatchingOptions;
  /**
   * Keeps packed weights on disk, on the CPU: later processes load faster, and processes that run at the same time share the memory.
   * `true` is the folder that `WEBNN_CACHE` names, or the platform's folder for caches; a string is a folder. A process can use one folder.
   * If a folder cannot be used or written, models load as without a cache. Default: `false`.
   */
  cache?: boolean | string;
  /**
   * Maps the model's files instead of reading them, so that processes share their pages. Do not change a mapped file while the model is in
   * use: if it is truncated, the process ends. Default: false.
   */
  map?: boolean;
  /** Cancels the load, which rejects with the signal's reason at once and stops. A stream that is being read is cancelled. */
  signal?: AbortSignal;
  /**
   * Called for each piece of a stream that has arrived, and then ten times a second while files are read. The numbers are bytes of all files
   * together. `total` is undefined if the length of a stream is unknown. If the function throws, the load rejects.
   */
  onProgress?: (progress: { loaded: number; total: number | undefined }) => void;
}

/**
 * Where a model comes from: the path or file URL of a file, its bytes, or a stream of its bytes. A stream is read into memory outside of
 * JavaScript's heap.
 */
export type OnnxSource =
  | string
  | URL
  | ArrayBufferLike
  | ArrayBufferView
  | Blob
  | { readonly ok: boolean; readonly status: number; readonly body: unknown; readonly headers: { get(name: string): string | null } }
  | { readonly fd: number; stat(): Promise<{ size: number }>; read(...given: any[]): Promise<{ bytesRead: number }> }
  | AsyncIterable<ArrayBufferLike | ArrayBufferView>
  | ReadableStreamOfBytes;

/** A `ReadableStream` of any library of types. */
interface ReadableStreamOfBytes {
  getReader(): { read(): Promise<any> };
  cancel(reason?: unknown): Promise<void>;
}

/** A node of a model that cannot be run. */
export interface OnnxRefusedNode {
  name: string;
  operator: string;
  domain: string;
  version: number;
  reason: string;
}

/** The error of `loadOnnx` if nodes of the model cannot be run: a `NotSupportedError` that lists all of them. */
export interface OnnxNotSupportedError extends DOMException {
  nodes: OnnxRefusedNode[];
}

export interface OnnxRunOptions {
  /**
   * The names of the outputs that you want: if the model is one graph, only these are computed. Or arrays by name, which receive the
   * results; null for an array to be created.
   */
  outputs?: readonly string[] | Record<string, OnnxArray | null>;
  /** The seed of random nodes that have none. The same seed gives the same numbers on every machine. */
  seed?: number;
  /**
   * The maximum number of bytes that the run may use: inputs, outputs and intermediate values. A run that needs more is refused with an
   * `OperationError` before memory is allocated.
   */
  maxBytes?: number;
  /**
   * Cancels the run, which rejects with the signal's reason at once. On the CPU it stops soon, even in the middle of an operator; on a GPU only if it
   * has not started.
   */
  signal?: AbortSignal;
  /** More urgent runs go first, but no run waits for ever. Default: that of the context. */
  priority?: 'high' | 'normal' | 'low';
  /**
   * Milliseconds from the call. A run that has not started by then is dropped with a `TimeoutError`; a run that has started continues. Default:
   * that of the context.
   */
  timeout?: number;
}

/**
 * Values bound to a model's inputs and outputs. If the model is one graph of known shapes, they are tensors that stay on the device. Otherwise
 * their shapes may change from step to step, and results stay on the device, too, unless they are sequences or empty.
 */
export class OnnxBindings {
  private constructor();
  readonly inputs: Record<string, MLTensor | OnnxTensor>;
  /** If shapes may change: the results of the last step, once they were read. The next step releases its tensors, unless you passed them. */
  readonly outputs: Record<string, MLTensor | OnnxTensor>;
  /** Writes an input. */
  write(name: string, value: OnnxInput): void;
  /** Runs the model on the bound values. You need not await anything between dispatches; a failure appears when results are read. */
  dispatch(): void;
  /** Reads an output. */
  read<R extends OnnxResult = OnnxTensor>(name: string): Promise<R>;
  /** Swaps the values of an input and an output of the same type, such as a state for the next step. */
  swap(input: string, output: string): void;
  /** Destroys the tensors created for these bindings. */
  destroy(): void;
  /** `destroy()` for `using`, if the runtime has the symbol. */
  [Symbol.dispose](): void;
}

/** The metadata of a model's file. */
export interface OnnxMetadata {
  producer: string;
  producerVersion: string;
  version: number;
  domain: string;
  description: string;
  graphName: string;
  properties: Record<string, string>;
}

/** A step of a run: one or several operators, computed by one implementation. */
export interface OnnxProfiledStep {
  /** The main operator, with WebNN's name. */
  operator: string;
  /** The name of the node in the file, if it has one. */
  label: string;
  /** Milliseconds since the run began. */
  began: number;
  ms: number;
  /** The implementation that computed it, such as `gemm.packed`. */
  implementation: string;
  /** All operators, shapes and the label. */
  text: string;
  /** The multiplications of the operators; an implementation may need fewer. */
  multiplications: number;
  /** Bytes of inputs and outputs, each once. */
  bytes: number;
  /** Of the first input. */
  dataType: string;
  /** The thread that ran it, alone or together with others: `JavaScript`, or the name of a thread of the package; `GPU` on one. */
  thread: string;
  /** Which of the graphs that the run began it belongs to, from 0: a split model has several, and those of loops begin again. */
  part: number;
  /** The positions in `steps` of those whose results it reads. */
  sources: number[];
}

export interface OnnxProfiledRun {
  /** By `performance.now()`. */
  began: number;
  /** The time until the result, including the time in queues. */
  ms: number;
  /** Empty on a GPU without timestamp queries. */
  steps: OnnxProfiledStep[];
}

/** The peak rates of a CPU with the threads of a context. */
export interface OnnxPeak {
  /** Of a product of float32 matrices. */
  gflops: number;
  /** Of memory that is read and written, beyond the caches of the cores. */
  gbs: number;
}

/** A profile of runs. */
export interface OnnxProfile {
  /** The runs that have ended, in the order of their ends. */
  readonly runs: OnnxProfiledRun[];
  /** Stops the profile: later runs are not profiled. */
  stop(): void;
  /**
   * The peak rates of the CPU, to compare with the steps; undefined on a GPU. The first call for a context measures them, which takes some tenths of a
   * second and 64 MiB.
   */
  peak(): Promise<OnnxPeak | undefined>;
  /** Chrome's trace format, for Perfetto. */
  toJSON(): { traceEvents: object[]; displayTimeUnit: string };
}

/** A loaded model. */
export class OnnxModel {
  private constructor();
  /** In the order of the file. */
  readonly inputs: OnnxSignature[];
  readonly outputs: OnnxOutputSignature[];
  /** undefined if dimensions are open, or the model is split. */
  readonly graph: MLGraph | undefined;
  /** Nodes at which a model of known shapes is split, because the following nodes depend on data. */
  readonly cuts: { node: string; operator: string; reason: string }[];
  readonly metadata: OnnxMetadata;
  readonly label: string;
  /** undefined without the option `batching`. */
  readonly batching: OnnxBatching | undefined;
  /**
   * Runs the model. Pass a value for every input that is not `optional`; values are copied at the call. Several runs may be in flight.
   * New shapes need a plan first. Results are tensors; use `run<OnnxResult>` if `model.outputs` has sequences or optional values.
   */
  run<R extends OnnxResult = OnnxTensor>(inputs: Record<string, OnnxInput>, options?: OnnxRunOptions): Promise<Record<string, R>>;
  /**
   * Makes plans for inputs of these shapes, so no run has to wait for one. You may leave out shapes that follow from others. For a
   * sequence pass an array of shapes.
   */
  prepare(
    shapes: readonly Record<string, readonly number[] | readonly (readonly number[])[]>[],
    /** Cancels it: plans that no other call waits for are not made. */
    options?: { signal?: AbortSignal },
  ): Promise<void>;
  /** Profiles the runs, and steps of `generate()`, that start from now on, until you stop it or call this again. */
  profile(): OnnxProfile;
  /** Uses the tensors that you pass, and creates the others. */
  createBindings(given?: {
    inputs?: Record<string, MLTensor | OnnxInput>;
    outputs?: Record<string, MLTensor>;
  }): Promise<OnnxBindings>;
  /** The bytes that the model holds, by use. They are a part of `context.memoryUsage()`. */
  memoryUsage(): MLMemoryUsage;
  /** Releases the weights and all plans; runs in flight complete. */
  destroy(): void;
  /** `destroy()` for `using`, if the runtime has the symbol. */
  [Symbol.dispose](): void;
}

/**
 * Loads an ONNX model: reads it in the background, and imports and compiles it if its shapes are known. Open dimensions that
 * `freeDimensions` does not fix may differ from run to run. If the file changes, the model computes with the old weights or
 * rejects with an `OperationError`. External data
 * that is not in `externalData` must be in the folder of the file. If its path is a link, the folder of the real file works, too.
 */
export function loadOnnx(
  context: MLContext,
  source: OnnxSource,
  options?: OnnxLoadOptions,
): Promise<OnnxModel>;

/** An input or output in a file: type and shape of the tensor, or of the tensors in a sequence or optional value. */
export interface OnnxDescription {
  name: string;
  dataType: string;
  shape: string[] | null;
  sequence?: true;
  optional?: true;
}

/** The contents of a model's file. */
export interface OnnxSummary {
  producer: string;
  irVersion: number;
  /** Versions of the operator sets, by domain. */
  opsets: Record<string, number>;
  operators: { domain: string; operator: string; count: number }[];
  /** The number of weights, and their bytes in the file. */
  parameters: number;
  parameterBytes: number;
  inputs: OnnxDescription[];
  outputs: OnnxDescription[];
  /** Nodes with unsupported operators; `loadOnnx` may refuse more nodes for their options. */
  unsupported: OnnxRefusedNode[];
}

/** Describes a model, without a context and without loading its weights. */
export function inspectOnnx(source: string | URL | ArrayBufferLike | ArrayBufferView): Promise<OnnxSummary>;
