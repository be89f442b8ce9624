/**
 * The W3C Web Neural Network API for Node.js: https://www.w3.org/TR/webnn/
 *
 * This file is generated: the operators come from the operator table in `src/graph/ops/`, the rest from
 * `src/graph/typings/interfaces.d.ts`. `npm test` fails when it is stale and says how to write it anew.
 */

/// <reference types="node" />

/** A power preference for a context. */
export type MLPowerPreference = 'default' | 'high-performance' | 'low-power';

/** Extension: the kind of device that older clients of the API still ask for. */
export type MLDeviceType = 'cpu' | 'gpu' | 'npu';

/** What `createContext` should select. See https://www.w3.org/TR/webnn/#api-mlcontextoptions */
export interface MLContextOptions {
  /** Default: `'default'`. */
  powerPreference?: MLPowerPreference;
  /** `false` selects the CPU. Default: `true`, a hardware accelerator where there is one. */
  accelerated?: boolean;
  /** Extension: wins over the two preferences above. */
  deviceType?: MLDeviceType;
  /** Extension: threads for kernels on the CPU. Default: as many as the process may use. */
  numThreads?: number;
  /** Extension: shown in messages and readable as `context.label`. */
  label?: string;
}

/** What an operand or tensor is: the type of its elements and its dimensions, outermost first; `[]` for a scalar. */
export interface MLOperandDescriptor {
  dataType: MLOperandDataType;
  /** Each at least 1, at most eight of them, and at most 2³¹ − 1 elements in all. */
  shape: Iterable<number>;
}

/** What a tensor is, and what script may do with it. See https://www.w3.org/TR/webnn/#api-mltensordescriptor */
export interface MLTensorDescriptor extends MLOperandDescriptor {
  /** Whether `readTensor` is allowed. Default: `false`. */
  readable?: boolean;
  /** Whether `writeTensor` is allowed. Default: `false`. */
  writable?: boolean;
  /** Extension: shown in messages and readable as `tensor.label`. */
  label?: string;
}

/** Options of every operator. */
export interface MLOperatorOptions {
  /** Shown in messages about the operator. Default: `''`. */
  label?: string;
}

/** Extension: options of the methods that only enqueue, and of `build`. */
export interface MLLabelOptions {
  /** Shown in messages about the operation. Default: `''`. */
  label?: string;
}

/** A number for a tensor of any type: a `bigint` reaches all 64-bit integers. */
export type MLNumber = number | bigint;

/** Bytes, shared or not. */
export type AllowSharedBufferSource = ArrayBufferLike | ArrayBufferView;

/** Tensors by the name of the graph's input or output. */
export type MLNamedTensors = Record<string, MLTensor>;

/** Operands by the name of the output that they become. */
export type MLNamedOperands = Record<string, MLOperand>;

/** Why a context was lost. */
export interface MLContextLostInfo {
  message: string;
}

/** Smallest and largest rank. */
export interface MLRankRange {
  min: number;
  max: number;
}

/** Data types and ranks that an operand may have. */
export interface MLTensorLimits {
  dataTypes: MLOperandDataType[];
  rankRange: MLRankRange;
}

/** Extension: how many bytes a context holds. */
export interface MLMemoryUsage {
  /** Tensors that are not destroyed, or still needed by work that was asked for. */
  tensors: number;
  /** Constants of graphs. */
  graphs: number;
  /** Intermediate results of graphs, kept between dispatches. */
  scratch: number;
  /** The most that the three together ever were. */
  peak: number;
}

/** The entry point: `ml.createContext()`. See https://www.w3.org/TR/webnn/#api-ml */
export class ML {
  private constructor();
  /**
   * Makes a context: a device and its timeline.
   *
   * Rejects with `NotSupportedError` when the device cannot be had here.
   */
  createContext(options?: MLContextOptions): Promise<MLContext>;
  readonly [Symbol.toStringTag]: 'ML';
}

/** The `ML` object of this module, `navigator.ml` in browsers. */
export const ml: ML;

/** A device and its timeline, on which everything happens in order. See https://www.w3.org/TR/webnn/#api-mlcontext */
export class MLContext {
  private constructor();
  /** Whether a hardware accelerator was selected. */
  readonly accelerated: boolean;
  /** Resolves when the context was destroyed or its device is gone. */
  readonly lost: Promise<MLContextLostInfo>;
  /** Extension: the label given to `createContext`. */
  readonly label: string;
  /**
   * Enqueues an execution of a graph. The tensors must have exactly the data types and shapes of the graph's inputs and
   * outputs, each tensor once. The result can be read at once: `readTensor` waits for it.
   *
   * Throws `TypeError` for tensors that do not fit or are destroyed, `InvalidStateError` for a destroyed graph.
   */
  dispatch(graph: MLGraph, inputs: MLNamedTensors, outputs: MLNamedTensors, options?: MLLabelOptions): void;
  /** Makes a tensor of zeros. Rejects with `UnknownError` when there is no memory for it. */
  createTensor(descriptor: MLTensorDescriptor): Promise<MLTensor>;
  /** Makes a tensor for `MLGraphBuilder.constant(tensor)` with a copy of the bytes. */
  createConstantTensor(descriptor: MLOperandDescriptor & MLLabelOptions, inputData: AllowSharedBufferSource): Promise<MLTensor>;
  /** Resolves with a copy of the tensor's bytes after everything enqueued before. */
  readTensor(tensor: MLTensor): Promise<ArrayBuffer>;
  /** Copies the tensor's bytes into the given memory, which must have exactly their length. */
  readTensor(tensor: MLTensor, outputData: AllowSharedBufferSource): Promise<undefined>;
  /** Enqueues a write; the bytes are copied before it returns. */
  writeTensor(tensor: MLTensor, inputData: AllowSharedBufferSource, options?: MLLabelOptions): void;
  /** What this context can do: for each operator and operand, data types and ranks. */
  opSupportLimits(): MLOpSupportLimits;
  /** Extension: how many bytes the context holds. */
  memoryUsage(): MLMemoryUsage;
  /** Rejects everything pending with `InvalidStateError`, resolves `lost`, and releases all memory of the context. */
  destroy(): void;
  readonly [Symbol.toStringTag]: 'MLContext';
}

/** A compiled graph. See https://www.w3.org/TR/webnn/#api-mlgraph */
export class MLGraph {
  private constructor();
  /** Extension: the label given to `build`. */
  readonly label: string;
  /** Releases the graph after the last dispatch that was enqueued. */
  destroy(): void;
  readonly [Symbol.toStringTag]: 'MLGraph';
}

/** A value of a graph under construction. See https://www.w3.org/TR/webnn/#api-mloperand */
export class MLOperand {
  private constructor();
  readonly dataType: MLOperandDataType;
  readonly shape: readonly number[];
  readonly [Symbol.toStringTag]: 'MLOperand';
}

/** Memory of a context. See https://www.w3.org/TR/webnn/#api-mltensor */
export class MLTensor {
  private constructor();
  readonly dataType: MLOperandDataType;
  readonly shape: readonly number[];
  readonly readable: boolean;
  readonly writable: boolean;
  /** Whether `createConstantTensor` made it. */
  readonly constant: boolean;
  /** Extension: the label of its descriptor. */
  readonly label: string;
  /** Rejects its pending reads with `InvalidStateError` and releases the memory after the last dispatch that uses it. */
  destroy(): void;
  readonly [Symbol.toStringTag]: 'MLTensor';
}

/** Puts a graph together. See https://www.w3.org/TR/webnn/#api-mlgraphbuilder */
export class MLGraphBuilder {
  constructor(context: MLContext);
  /** An input of the graph, bound by its name in `dispatch`. */
  input(name: string, descriptor: MLOperandDescriptor): MLOperand;
  /** A constant with a copy of the bytes. */
  constant(descriptor: MLOperandDescriptor, buffer: AllowSharedBufferSource): MLOperand;
  /** A scalar constant; the value is clamped and rounded to the data type. */
  constant(dataType: MLOperandDataType, value: MLNumber): MLOperand;
  /** A constant with the contents of a tensor that `createConstantTensor` made. */
  constant(tensor: MLTensor): MLOperand;
  /**
   * Compiles the part of the graph that the outputs need. The builder cannot be used afterwards.
   *
   * Rejects with `TypeError` for outputs that are inputs or constants, `OperationError` when the device refuses.
   */
  build(outputs: MLNamedOperands, options?: MLLabelOptions): Promise<MLGraph>;
  /** Extension: releases the constants of a builder that will not be built. */
  destroy(): void;
  readonly [Symbol.toStringTag]: 'MLGraphBuilder';
}

/** An enumeration of options. */
export type MLConv2dFilterOperandLayout = 'oihw' | 'hwio' | 'ohwi' | 'ihwo';

/** An enumeration of options. */
export type MLInputOperandLayout = 'nchw' | 'nhwc';

/** The type of a tensor's elements. `'int4'` and `'uint4'`, two elements to a byte, are an extension for constants and (de)quantization. */
export type MLOperandDataType = 'float32' | 'float16' | 'int32' | 'uint32' | 'int64' | 'uint64' | 'int8' | 'uint8' | 'int4' | 'uint4';

/** An enumeration of options. */
export type MLPaddingMode = 'constant' | 'edge' | 'reflection';

/** Options of `conv2d`. */
export interface MLConv2dOptions extends MLOperatorOptions {
  /**
   * Rows and columns of zeros around the input: [beginning height, ending height, beginning width, ending width].
   * Default: `[0, 0, 0, 0]`.
   */
  padding?: Iterable<number>;
  /** Default: `[1, 1]`. */
  strides?: Iterable<number>;
  /** Default: `[1, 1]`. */
  dilations?: Iterable<number>;
  /** Default: `1`. */
  groups?: number;
  /** Default: `'nchw'`. */
  inputLayout?: MLInputOperandLayout;
  /** Default: `'oihw'`. */
  filterLayout?: MLConv2dFilterOperandLayout;
  bias?: MLOperand;
}

/** Options of `pad`. */
export interface MLPadOptions extends MLOperatorOptions {
  /** Default: `'constant'`. */
  mode?: MLPaddingMode;
  /**
   * Cast to the input's data type where it is used.
   * Default: `0`.
   */
  value?: MLNumber;
}

/** Options of `reverse`. */
export interface MLReverseOptions extends MLOperatorOptions {
  /** All axes when absent. */
  axes?: Iterable<number>;
}

/** Options of `slice`. */
export interface MLSliceOptions extends MLOperatorOptions {
  /** 1 in each dimension when absent. */
  strides?: Iterable<number>;
}

/** Options of `split`. */
export interface MLSplitOptions extends MLOperatorOptions {
  /** Default: `0`. */
  axis?: number;
}

/** Options of `transpose`. */
export interface MLTransposeOptions extends MLOperatorOptions {
  /** The dimensions in reverse order when absent. */
  permutation?: Iterable<number>;
}

/** Options of `triangular`. */
export interface MLTriangularOptions extends MLOperatorOptions {
  /** Default: `true`. */
  upper?: boolean;
  /** Default: `0`. */
  diagonal?: number;
}

export interface MLGraphBuilder {
  /**
   * Computes a 2-D convolution of a 4-D input with a 4-D filter.
   *
   * - `input`: float32, float16; rank 4
   * - `filter`: the type of `input`; rank 4
   * - `bias`: the type of `input`; rank 1
   * - result `output`: the type of `input`; rank 4
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-conv2d
   */
  conv2d(input: MLOperand, filter: MLOperand, options?: MLConv2dOptions): MLOperand;
  /**
   * Adds the values of the two operands, element by element.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: the type of `a`; ranks 0 to 8
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-binary
   */
  add(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Subtracts the values of the second operand from those of the first, element by element.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: the type of `a`; ranks 0 to 8
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-binary
   */
  sub(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Joins the inputs, one after the other, along an axis. They have the same data type, rank and sizes, except
   * for the size of that axis, which is the sum of theirs in the output.
   *
   * - `inputs`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 1 to 8
   * - result `output`: the type of `inputs`; the rank of `inputs`
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-concat
   */
  concat(inputs: Iterable<MLOperand>, axis: number, options?: MLOperatorOptions): MLOperand;
  /**
   * Repeats the input along its dimensions of size 1, and along new outermost dimensions, until it has the new
   * shape. The other dimensions keep their size.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-expand
   */
  expand(input: MLOperand, newShape: Iterable<number>, options?: MLOperatorOptions): MLOperand;
  /**
   * Puts so many elements before and after the input in each dimension: a constant value, copies of the
   * outermost elements, or the input mirrored at its edges.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pad
   */
  pad(input: MLOperand, beginningPadding: Iterable<number>, endingPadding: Iterable<number>, options?: MLPadOptions): MLOperand;
  /**
   * Gives the input another shape with the same number of elements. The elements and their order stay the same.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reshape-method
   */
  reshape(input: MLOperand, newShape: Iterable<number>, options?: MLOperatorOptions): MLOperand;
  /**
   * Reverses the order of the elements along the axes, or along all of them when none are given.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reverse-method
   */
  reverse(input: MLOperand, options?: MLReverseOptions): MLOperand;
  /**
   * Takes a part of the input: in each dimension a range given by its start and size, and of that every
   * stride-th element.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-slice
   */
  slice(input: MLOperand, starts: Iterable<number>, sizes: Iterable<number>, options?: MLSliceOptions): MLOperand;
  /**
   * Divides the input along an axis, into a number of equal parts or into parts of the sizes that are listed.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 1 to 8
   * - result `outputs`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-split
   */
  split(input: MLOperand, splits: number | Iterable<number>, options?: MLSplitOptions): MLOperand[];
  /**
   * Repeats the input so many times along each dimension.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-tile
   */
  tile(input: MLOperand, repetitions: Iterable<number>, options?: MLOperatorOptions): MLOperand;
  /**
   * Permutes the dimensions: dimension i of the output is dimension `permutation[i]` of the input. Without a
   * permutation their order is reversed.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-transpose
   */
  transpose(input: MLOperand, options?: MLTransposeOptions): MLOperand;
  /**
   * Keeps the upper or the lower triangle of a matrix, or of each matrix of a batch, and puts zeros elsewhere.
   * The diagonal that bounds the triangle, and belongs to it, is counted upwards from the main diagonal.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 2 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for operands that do not fit, `InvalidStateError` when the builder cannot build any more.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-triangular
   */
  triangular(input: MLOperand, options?: MLTriangularOptions): MLOperand;
}

/** What a context can do. See https://www.w3.org/TR/webnn/#api-mlcontext-opsupportlimits */
export interface MLOpSupportLimits {
  preferredInputLayout: MLInputOperandLayout;
  maxTensorByteLength: number;
  input: MLTensorLimits;
  constant: MLTensorLimits;
  output: MLTensorLimits;
  conv2d: { input: MLTensorLimits; filter: MLTensorLimits; bias: MLTensorLimits; output: MLTensorLimits };
  add: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  sub: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  concat: { inputs: MLTensorLimits; output: MLTensorLimits };
  expand: { input: MLTensorLimits; output: MLTensorLimits };
  pad: { input: MLTensorLimits; output: MLTensorLimits };
  reshape: { input: MLTensorLimits; output: MLTensorLimits };
  reverse: { input: MLTensorLimits; output: MLTensorLimits };
  slice: { input: MLTensorLimits; output: MLTensorLimits };
  split: { input: MLTensorLimits; outputs: MLTensorLimits };
  tile: { input: MLTensorLimits; output: MLTensorLimits };
  transpose: { input: MLTensorLimits; output: MLTensorLimits };
  triangular: { input: MLTensorLimits; output: MLTensorLimits };
}
