/** ONNX models as WebNN graphs: an extension of this package, `webnn-node/onnx`. */

import type { MLContext, MLGraph, MLOperandDataType, MLTensor } from '../index.js';

/** What a model takes or gives: doubles and bfloat16 of the file are float32 here, truth values uint8, integers of 16 bits int32. */
export interface OnnxSignature {
  name: string;
  /** The type of the elements in the file, as onnxruntime names it: `'bool'`, `'float64'`, `'float32'`, and so on. */
  type: string;
  dataType: MLOperandDataType;
  shape: number[];
  /** `true` for an input that need not be passed, since the file has a value for it. */
  optional?: true;
}

/** The array for a data type: Float32Array for float32, BigInt64Array for int64, and so on; Uint16Array for float16 where there is no Float16Array. */
export type OnnxArray =
  | Float32Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray;

export interface OnnxLoadOptions {
  /**
   * Sizes for the dimensions that the file leaves open, by their names in the file, or as `input:axis`, where they have none
   * or share it. One whose name is arithmetic on others, such as `past_length + length`, follows from these, or they
   * from it; and a size that is passed for a place is that of its name, where nothing says otherwise.
   */
  freeDimensions?: Record<string, number>;
  /**
   * Values for inputs that never change: the model then has no such inputs, and what depends on them is known when it is
   * loaded. A model that branches on a sampling rate, say, is loaded for that rate.
   */
  constants?: Record<string, OnnxArray>;
  /**
   * Names of inputs that have a value in the file (an initializer) and that runs may pass all the same. Others with a value are
   * constants, with which more can be computed when the model is loaded.
   */
  overridable?: string[];
  /**
   * The most bytes that the model may take when it runs: weights, inputs, outputs and values in between. One that takes more is
   * refused with an `OperationError` before there is memory for it. By default 1 GiB, and 64 bytes for each byte of the model's
   * files and 256 for each byte of its inputs: more than networks take, and less than a small file that nobody vouches for may
   * ask for. `Infinity` allows all. What importing a model may do is bounded as well, and a larger number allows more of it.
   */
  maxBytes?: number;
  /** Shown in messages and readable as `model.label`. */
  label?: string;
}

/** A node of a model that cannot be run. */
export interface OnnxRefusedNode {
  name: string;
  operator: string;
  domain: string;
  version: number;
  reason: string;
}

/** The error of `loadOnnx` for a model with nodes that cannot be run: a `NotSupportedError` that lists all of them. */
export interface OnnxNotSupportedError extends DOMException {
  nodes: OnnxRefusedNode[];
}

export interface OnnxRunOptions {
  /**
   * The most bytes that the run may take: inputs, outputs and values in between. One that takes more is refused with an
   * `OperationError` before there is memory for it.
   */
  maxBytes?: number;
}

/** Tensors that stay on the device, bound to a model's inputs and outputs. */
export class OnnxBindings {
  private constructor();
  readonly inputs: Record<string, MLTensor>;
  readonly outputs: Record<string, MLTensor>;
  /** Writes an input. */
  write(name: string, array: OnnxArray): void;
  /** Runs the model on the tensors as they are bound now. Nothing needs to be awaited between dispatches. */
  dispatch(): void;
  /** Reads an output. */
  read(name: string): Promise<OnnxArray>;
  /** Exchanges an input's tensor with an output's of the same type and shape, such as a state for the next step. */
  swap(input: string, output: string): void;
  /** Destroys the tensors that were made for these bindings. */
  destroy(): void;
  /** `destroy()`, for `using`; there where the runtime has the symbol. */
  [Symbol.dispose](): void;
}

/** A model that was loaded. */
export class OnnxModel {
  private constructor();
  /** In the order of the file. */
  readonly inputs: OnnxSignature[];
  readonly outputs: OnnxSignature[];
  readonly graph: MLGraph;
  readonly label: string;
  /** Runs the model. Every input that is not `optional` needs its array, which is copied at the call; several runs may be in flight. */
  run(inputs: Record<string, OnnxArray>, options?: OnnxRunOptions): Promise<Record<string, OnnxArray>>;
  /** Tensors for all inputs and outputs; those that are given are used, the others made. */
  createBindings(given?: { inputs?: Record<string, MLTensor>; outputs?: Record<string, MLTensor> }): Promise<OnnxBindings>;
  /** Releases the graph and its weights; runs in flight are completed. */
  destroy(): void;
  /** `destroy()`, for `using`; there where the runtime has the symbol. */
  [Symbol.dispose](): void;
}

/**
 * Loads an ONNX model: reads, imports and compiles it in the background. A file is mapped, and must not be changed while
 * the model is in use; its external data must be in its own folder, or in the one where the file really is, if the path
 * leads there by a link.
 */
export function loadOnnx(
  context: MLContext,
  source: string | URL | ArrayBuffer | ArrayBufferView,
  options?: OnnxLoadOptions,
): Promise<OnnxModel>;

/** What a model's file holds. */
export interface OnnxSummary {
  producer: string;
  irVersion: number;
  /** Versions of the operator sets, by domain. */
  opsets: Record<string, number>;
  operators: { domain: string; operator: string; count: number }[];
  /** The number of weights, and the bytes that they take in the file. */
  parameters: number;
  parameterBytes: number;
  inputs: { name: string; dataType: string; shape: string[] | null }[];
  outputs: { name: string; dataType: string; shape: string[] | null }[];
  /** Nodes whose operators are not supported at all; `loadOnnx` may refuse more for their options. */
  unsupported: OnnxRefusedNode[];
}

/** Tells what a model holds, without a context and without loading its weights. */
export function inspectOnnx(source: string | URL | ArrayBuffer | ArrayBufferView): Promise<OnnxSummary>;
