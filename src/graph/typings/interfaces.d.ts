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

/**
 * Extension: how products of float32 may be computed: in float32, or with operands rounded to bfloat16 and sums in float32, where that is
 * faster.
 */
export type MLFPMath = 'strict' | 'bf16';

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
  /** Extension: a permission; the types of tensors stay what they are. On a GPU it has no effect. Default: `'strict'`. */
  fpMath?: MLFPMath;
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
  /**
   * Whether `exportToGPU` is allowed, on a context that was made from a `GPUDevice`. Of an earlier text of the interop with WebGPU: what depends
   * on the tensor waits while it is exported. Default: `false`.
   */
  exportableToGPU?: boolean;
  /** Whether `importExternalBuffer` of `webnn-node/webgpu` is allowed. Of an earlier text. Default: `false`. */
  importableToWebGPU?: boolean;
  /** Extension: shown in messages and readable as `tensor.label`. */
  label?: string;
}

/** A `GPUDevice` of WebGPU: as its types have it where they are there, such as those of `@webgpu/types`; else what of it is needed here. */
export type MLGPUDevice = typeof globalThis extends { GPUDevice: { prototype: infer Device } }
  ? Device
  : { readonly queue: object; readonly lost: Promise<unknown>; createCommandEncoder(descriptor?: any): any };

/** Likewise a `GPUBuffer` that is a tensor; `destroy()` or, by another name, `release()` gives it back. */
export type MLGPUBuffer = (typeof globalThis extends { GPUBuffer: { prototype: infer Buffer } }
  ? Buffer
  : { readonly size: number; readonly usage: number; label: string; destroy(): unknown }) & { release(): void };

/** Likewise a `GPUCommandBuffer`. */
export type MLGPUCommandBuffer = typeof globalThis extends { GPUCommandBuffer: { prototype: infer Commands } }
  ? Commands
  : { label: string };

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

/** Extension: memory by the name of the graph's input or output: typed arrays, or `DataView`s. */
export type MLNamedArrayBufferViews = Record<string, ArrayBufferView>;

/** Extension: the caller's memory after `compute`, as views of the same types and lengths. */
export interface MLComputeResult<
  Inputs extends MLNamedArrayBufferViews = MLNamedArrayBufferViews,
  Outputs extends MLNamedArrayBufferViews = MLNamedArrayBufferViews,
> {
  inputs: Inputs;
  outputs: Outputs;
}

/** Extension: a way to execute a graph. `'immediate'` blocks its thread, and is there in `worker_threads` only. */
export type MLExecutionMode = 'immediate' | 'awaited' | 'queued' | 'timeline';

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
  /** Constants of graphs, and of builders that have not built. */
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
  /**
   * Makes a context that computes on a `GPUDevice` of any implementation of WebGPU.
   *
   * Rejects with `InvalidStateError` when the device was lost.
   */
  createContext(gpuDevice: MLGPUDevice): Promise<MLContext>;
  readonly [Symbol.toStringTag]: 'ML';
}

/** The `ML` object of this module, `navigator.ml` in browsers. */
export const ml: ML;

/** A device and its timeline, on which everything happens in order. See https://www.w3.org/TR/webnn/#api-mlcontext */
export class MLContext {
  private constructor();
  /** Whether a hardware accelerator was selected; a GPU in software is none. */
  readonly accelerated: boolean;
  /** Extension: how products of float32 may be computed; `'strict'` on a GPU. */
  readonly fpMath: MLFPMath;
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
  /** Makes a tensor of zeros that can be exported to a device: without a copy, to that of this context. */
  createExportableTensor(descriptor: MLTensorDescriptor, gpuDevice: MLGPUDevice): Promise<MLTensor>;
  /**
   * A tensor as a buffer of its device, until the buffer's `destroy()` gives it back, with what WebGPU wrote. At once for a tensor that
   * `createExportableTensor` made for the device of this context; a promise for any other. `await` does for both.
   *
   * Meanwhile `dispatch`, `writeTensor` and `readTensor` refuse the tensor with `TypeError`, and exporting it again gives the same buffer.
   */
  exportToGPU(tensor: MLTensor): MLGPUBuffer | Promise<MLGPUBuffer>;
  /** Makes a tensor for `MLGraphBuilder.constant(tensor)` with a copy of the bytes. */
  createConstantTensor(descriptor: MLOperandDescriptor & MLLabelOptions, inputData: AllowSharedBufferSource): Promise<MLTensor>;
  /** Resolves with a copy of the tensor's bytes after everything enqueued before. */
  readTensor(tensor: MLTensor): Promise<ArrayBuffer>;
  /** Copies the tensor's bytes into the given memory, which must have exactly their length. */
  readTensor(tensor: MLTensor, outputData: AllowSharedBufferSource): Promise<undefined>;
  /** Enqueues a write; the bytes are copied before it returns. */
  writeTensor(tensor: MLTensor, inputData: AllowSharedBufferSource, options?: MLLabelOptions): void;
  /**
   * Extension: runs a graph on the given memory, without copying it. Before it returns, the `ArrayBuffer`s behind the views
   * are taken away; the promise gives the memory back as new views. Only the outputs that are named, at least one, are
   * computed, and their memory must not overlap any other.
   *
   * Rejects with `TypeError`, and nothing is taken away, for views that do not fit and memory that cannot be transferred;
   * with `OperationError` or `InvalidStateError` when the execution fails or the graph or context is destroyed meanwhile. Such
   * an error has the memory in its properties `inputs` and `outputs`.
   */
  compute<Inputs extends MLNamedArrayBufferViews, Outputs extends MLNamedArrayBufferViews>(
    graph: MLGraph,
    inputs: Inputs,
    outputs: Outputs,
    options?: MLLabelOptions,
  ): Promise<MLComputeResult<Inputs, Outputs>>;
  /**
   * Extension: fills the outputs while the calling thread waits, and returns the given views. In `worker_threads` only: throws `InvalidStateError` on the
   * main thread.
   */
  computeSync<Inputs extends MLNamedArrayBufferViews, Outputs extends MLNamedArrayBufferViews>(
    graph: MLGraph,
    inputs: Inputs,
    outputs: Outputs,
    options?: MLLabelOptions,
  ): MLComputeResult<Inputs, Outputs>;
  /** Extension: a copy of the tensor's bytes, for which the calling thread waits. In `worker_threads` only. */
  readTensorSync(tensor: MLTensor): ArrayBuffer;
  /**
   * Extension: enqueues everything that was recorded, in order. On a context that was made from a `GPUDevice` there may be its
   * `GPUCommandBuffer`s among it.
   *
   * Throws `InvalidStateError`, and nothing of it runs, when a graph or tensor of it was destroyed.
   */
  submit(commandBuffers: Iterable<MLCommandBuffer | MLGPUCommandBuffer>): void;
  /** Extension: the ways to execute a graph that there are on this thread. */
  readonly executionModes: readonly MLExecutionMode[];
  /** What this context can do: for each operator and operand, data types and ranks. */
  opSupportLimits(): MLOpSupportLimits;
  /** Extension: how many bytes the context holds. */
  memoryUsage(): MLMemoryUsage;
  /** Rejects everything pending with `InvalidStateError`, resolves `lost`, and releases all memory of the context. */
  destroy(): void;
  /** Extension: `destroy()`, for `using`; there where the runtime has the symbol. */
  [Symbol.dispose](): void;
  readonly [Symbol.toStringTag]: 'MLContext';
}

/** A compiled graph. See https://www.w3.org/TR/webnn/#api-mlgraph */
export class MLGraph {
  private constructor();
  /** Extension: the label given to `build`. */
  readonly label: string;
  /** Extension, as Chromium has it: where the graph runs, `['cpu']` or `['gpu']`; frozen. */
  readonly devices: readonly ('cpu' | 'gpu')[];
  /** Releases the graph after the last dispatch that was enqueued. */
  destroy(): void;
  /** Extension: `destroy()`, for `using`; there where the runtime has the symbol. */
  [Symbol.dispose](): void;
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
  /** The device that it can be exported to, of a tensor that `createExportableTensor` made; else `null`. */
  readonly gpuDevice: MLGPUDevice | null;
  /** Whether its descriptor said so. */
  readonly exportableToGPU: boolean;
  /** Rejects its pending reads with `InvalidStateError` and releases the memory after the last dispatch that uses it. */
  destroy(): void;
  /** Extension: `destroy()`, for `using`; there where the runtime has the symbol. */
  [Symbol.dispose](): void;
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
  /** Extension: `destroy()`, for `using`; there where the runtime has the symbol. */
  [Symbol.dispose](): void;
  readonly [Symbol.toStringTag]: 'MLGraphBuilder';
}

/** Extension: records dispatches, to be submitted later and more than once. */
export class MLCommandEncoder {
  constructor(context: MLContext);
  /** Announces a graph that will be dispatched here. */
  initializeGraph(graph: MLGraph): void;
  /**
   * Records a dispatch; the tensors are checked now.
   *
   * Throws like `MLContext.dispatch`, and `InvalidStateError` for a graph that was not initialized here or after `finish`.
   */
  dispatch(graph: MLGraph, inputs: MLNamedTensors, outputs: MLNamedTensors, options?: MLLabelOptions): void;
  /** Ends the recording. */
  finish(options?: MLLabelOptions): MLCommandBuffer;
  readonly [Symbol.toStringTag]: 'MLCommandEncoder';
}

/** Extension: recorded dispatches, for `MLContext.submit`. */
export class MLCommandBuffer {
  private constructor();
  readonly label: string;
  readonly [Symbol.toStringTag]: 'MLCommandBuffer';
}

/** Extension: `MLContext.computeSync` by the name of the original proposal. In `worker_threads` only. */
export class MLExecution {
  constructor(context: MLContext);
  compute<Inputs extends MLNamedArrayBufferViews, Outputs extends MLNamedArrayBufferViews>(
    graph: MLGraph,
    inputs: Inputs,
    outputs: Outputs,
    options?: MLLabelOptions,
  ): MLComputeResult<Inputs, Outputs>;
  readonly [Symbol.toStringTag]: 'MLExecution';
}

/** Extension: `MLContext.compute` by the name of the original proposal. */
export class MLAwaitedExecution {
  constructor(context: MLContext);
  compute<Inputs extends MLNamedArrayBufferViews, Outputs extends MLNamedArrayBufferViews>(
    graph: MLGraph,
    inputs: Inputs,
    outputs: Outputs,
    options?: MLLabelOptions,
  ): Promise<MLComputeResult<Inputs, Outputs>>;
  readonly [Symbol.toStringTag]: 'MLAwaitedExecution';
}
