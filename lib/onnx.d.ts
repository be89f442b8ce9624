/** ONNX models as WebNN graphs: an extension of this package, `webnn-node/onnx`. */

import type { MLContext, MLFPMath, MLGraph, MLOperandDataType, MLTensor } from '../index.js';

/** What a model takes: doubles and bfloat16 of the file are float32 here, truth values uint8, integers of 16 and 4 bits int32. */
export interface OnnxSignature {
  name: string;
  /** The type of the elements in the file, as onnxruntime names it: `'bool'`, `'float64'`, `'float32'`, and so on. */
  type: string;
  dataType: MLOperandDataType;
  /**
   * The size of each dimension, or, where the model leaves it open, its name in the file: every dimension with that name has the
   * same size. One without a name is `input:axis`. null where not even the number of dimensions is known. Of a sequence it is the shape
   * of its tensors, in each of which a name may stand for another size.
   */
  shape: (number | string)[] | null;
  /** `true` for an input that need not be passed, since the file has a value for it, or since it is an optional value. */
  optional?: true;
  /** `true` for a sequence: a run takes an array of tensors. */
  sequence?: true;
}

/** What a model gives. Of a model whose shapes are all known that is exact; else it is what the file declares. */
export interface OnnxOutputSignature {
  name: string;
  /** null where the file does not declare it. */
  type: string | null;
  dataType: MLOperandDataType | null;
  /** A name is that of an input's dimension; null is a size that only a run can tell, or a shape of which nothing is declared. */
  shape: (number | string | null)[] | null;
  /** `true` for an optional value, which is null where it has no content. */
  optional?: true;
  /** `true` for a sequence: a run gives an array of tensors. */
  sequence?: true;
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

/** Elements with a shape: what a model gives, and what it takes. */
export class OnnxTensor {
  constructor(dataType: MLOperandDataType, data: OnnxArray, shape: readonly number[]);
  readonly dataType: MLOperandDataType;
  readonly data: OnnxArray;
  readonly shape: readonly number[];
  /** The shape, as onnxruntime names it. */
  readonly dims: readonly number[];
  /** The data type, as onnxruntime names it. */
  readonly type: MLOperandDataType;
}

/**
 * A value for an input: an array alone where only one shape is possible, such as where all sizes are known, or one is open and follows
 * from the number of elements.
 */
export type OnnxValue =
  | OnnxArray
  | OnnxTensor
  | { data: OnnxArray; shape: readonly number[]; dataType?: string }
  | { data: OnnxArray; dims: readonly number[]; type?: string };

/** What an input takes: of a sequence the tensors, and null, or nothing, for an optional value without content. */
export type OnnxInput = OnnxValue | readonly OnnxValue[] | null | undefined;

/** What an output gives: of a sequence the tensors, and null for an optional value without content. */
export type OnnxResult = OnnxTensor | OnnxTensor[] | null;

export interface OnnxLoadOptions {
  /**
   * Sizes for dimensions that the file leaves open and that never change, by their names in the file, or as `input:axis`, where they have none
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
  /** How products of float32 may be computed, as of `createContext`. Default: what `context.fpMath` says. */
  fpMath?: MLFPMath;
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
   * The outputs that are wanted, by their names: only what these need is computed, where the model is one graph. Or arrays by their
   * names, into which the results are written, and null for one that is to be made.
   */
  outputs?: readonly string[] | Record<string, OnnxArray | null>;
  /** For random numbers of nodes that have no seed: the same one gives the same numbers on every machine. */
  seed?: number;
  /**
   * The most bytes that the run may take: inputs, outputs and values in between. One that takes more is refused with an
   * `OperationError` before there is memory for it.
   */
  maxBytes?: number;
  /**
   * When it is aborted the run is rejected with its reason, and ends: on the CPU within the pieces of an operator, on a GPU if it has not
   * begun, and a model that is cut between its parts.
   */
  signal?: AbortSignal;
}

/**
 * Values bound to a model's inputs and outputs. Of a model that is one graph of known shapes these are tensors that stay on the
 * device; of others they have the shapes that come from step to step, and what a step gives stays on the device too, unless it is a sequence
 * or nothing is in it.
 */
export class OnnxBindings {
  private constructor();
  readonly inputs: Record<string, MLTensor | OnnxTensor>;
  /** Of a model whose shapes may change: what the last step gave, once it was read. Its tensors go with the next step, unless they were given. */
  readonly outputs: Record<string, MLTensor | OnnxTensor>;
  /** Writes an input. */
  write(name: string, value: OnnxInput): void;
  /** Runs the model on what is bound now. Nothing needs to be awaited between dispatches; a failure shows where results are read. */
  dispatch(): void;
  /** Reads an output. */
  read<R extends OnnxResult = OnnxTensor>(name: string): Promise<R>;
  /** Exchanges an input's value with an output's of the same type, such as a state for the next step. */
  swap(input: string, output: string): void;
  /** Destroys the tensors that were made for these bindings. */
  destroy(): void;
  /** `destroy()`, for `using`; there where the runtime has the symbol. */
  [Symbol.dispose](): void;
}

/** What a model's file says of itself. */
export interface OnnxMetadata {
  producer: string;
  producerVersion: string;
  version: number;
  domain: string;
  description: string;
  graphName: string;
  properties: Record<string, string>;
}

/** A model that was loaded. */
export class OnnxModel {
  private constructor();
  /** In the order of the file. */
  readonly inputs: OnnxSignature[];
  readonly outputs: OnnxOutputSignature[];
  /** undefined where dimensions are open, or the model is cut. */
  readonly graph: MLGraph | undefined;
  /** Nodes at which a model of known shapes is cut, since values of a run decide what comes behind them. */
  readonly cuts: { node: string; operator: string; reason: string }[];
  readonly metadata: OnnxMetadata;
  readonly label: string;
  /**
   * Runs the model. Every input that is not `optional` needs its value, which is copied at the call; several runs may be in flight. For
   * shapes that were not met before a plan is made first. Results are tensors, unless `model.outputs` tells of sequences or optional
   * values: `run<OnnxResult>` says that.
   */
  run<R extends OnnxResult = OnnxTensor>(inputs: Record<string, OnnxInput>, options?: OnnxRunOptions): Promise<Record<string, R>>;
  /**
   * Makes plans for inputs of these shapes, so that no run has to wait for one. Shapes that follow from others may be left out; of a
   * sequence it takes an array of shapes.
   */
  prepare(shapes: readonly Record<string, readonly number[] | readonly (readonly number[])[]>[]): Promise<void>;
  /** Those that are given are used, the others made. */
  createBindings(given?: {
    inputs?: Record<string, MLTensor | OnnxInput>;
    outputs?: Record<string, MLTensor>;
  }): Promise<OnnxBindings>;
  /** Releases the weights and all plans; runs in flight are completed. */
  destroy(): void;
  /** `destroy()`, for `using`; there where the runtime has the symbol. */
  [Symbol.dispose](): void;
}

/**
 * Loads an ONNX model: reads it in the background, and imports and compiles it if its shapes are known. Dimensions that the file
 * leaves open, and that `freeDimensions` does not fix, may differ from run to run. A file is mapped, and must not be changed while
 * the model is in use; its external data must be in its own folder, or in the one where the file really is, if the path
 * leads there by a link.
 */
export function loadOnnx(
  context: MLContext,
  source: string | URL | ArrayBuffer | ArrayBufferView,
  options?: OnnxLoadOptions,
): Promise<OnnxModel>;

/** An input or output as a file has it: the type and the shape are those of tensors, also of those that a sequence or an optional value holds. */
export interface OnnxDescription {
  name: string;
  dataType: string;
  shape: string[] | null;
  sequence?: true;
  optional?: true;
}

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
  inputs: OnnxDescription[];
  outputs: OnnxDescription[];
  /** Nodes whose operators are not supported at all; `loadOnnx` may refuse more for their options. */
  unsupported: OnnxRefusedNode[];
}

/** Tells what a model holds, without a context and without loading its weights. */
export function inspectOnnx(source: string | URL | ArrayBuffer | ArrayBufferView): Promise<OnnxSummary>;
