/**
 * The W3C Web Neural Network API for Node.js: https://www.w3.org/TR/webnn/
 *
 * This file is generated: the operators come from the operator table in `src/graph/ops/`, the rest from
 * `src/graph/typings/interfaces.d.ts`. `npm test` fails when it is stale and says how to write it anew.
 */

/// <reference types="node" />

/** A power preference for a context. */
export type MLPowerPreference = 'default' | 'high-performance' | 'low-power';

/** Extension: the kind of device, as older clients of the API pass it. */
export type MLDeviceType = 'cpu' | 'gpu' | 'npu';

/**
 * Extension: how float32 products may be computed: in float32, or, if that is faster, with operands rounded to bfloat16 and sums in
 * float32.
 */
export type MLFPMath = 'strict' | 'bf16';

/** Extension: the goal for the division of the CPU's threads among runs. */
export type MLPerformanceHint = 'latency' | 'throughput';

/** What `createContext` should select. See https://www.w3.org/TR/webnn/#api-mlcontextoptions */
export interface MLContextOptions {
  /** Default: `'default'`. */
  powerPreference?: MLPowerPreference;
  /** `false` selects the CPU. Default: `true`, a hardware accelerator if there is one. */
  accelerated?: boolean;
  /**
   * Extension: the folder for packed weights of the context's graphs and for saved graphs; `true` for that of `WEBNN_CACHE` or the
   * platform. Graphs keep their constants until they are saved. Default: the folder of `WEBNN_CACHE`, if it is set.
   */
  cache?: boolean | string;
  /** Extension: overrides the two preferences above. */
  deviceType?: MLDeviceType;
  /** Extension: number of threads on the CPU. Default: the cores that the process may use, which all contexts share. */
  numThreads?: number;
  /**
   * Extension: how runs share the threads of the CPU. `'latency'`: each run uses all threads, one run after the other. `'throughput'`: each run uses
   * one thread, as many at a time as there are threads. A number: the number of concurrent runs. Default: depends on the load.
   */
  performance?: MLPerformanceHint | number;
  /** Extension: permission to reduce the precision of products; tensors keep their types. No effect on a GPU. Default: `'strict'`. */
  fpMath?: MLFPMath;
  /**
   * Extension: the maximum number of bytes that `memoryUsage()` counts, as in its peak. Work that would exceed it is refused with a
   * `QuotaExceededError`. Default: no limit.
   */
  memoryLimit?: number;
  /**
   * Extension: milliseconds after which unused memory for intermediate values is released on the CPU, and all unused plans of ONNX models but the
   * most recently used. `false` keeps them as long as their graph or model. Default: 60,000.
   */
  idle?: number | false;
  /** Extension: shown in messages and readable as `context.label`. */
  label?: string;
  /** Extension: the priority of runs that have none of their own. Default: `'normal'`. */
  priority?: MLPriority;
  /** Extension: the timeout of runs that have none of their own, in milliseconds. Default: none. */
  timeout?: number;
  /**
   * Extension: the maximum number of unfinished runs. Another run is refused at once with a `QuotaExceededError`. Its property `waiting` is the number
   * of unfinished runs, and `waitingFor` the age of the oldest in milliseconds. Default: no limit.
   */
  maxQueue?: number;
}

/** The data type of an operand or tensor, and its dimensions, outermost first; `[]` for a scalar. */
export interface MLOperandDescriptor {
  dataType: MLOperandDataType;
  /** At most eight dimensions, each at least 1; at most 2³¹ − 1 elements in total. */
  shape: Iterable<number>;
}

/** Extension: the descriptor of an input or output. */
export interface MLFrozenOperandDescriptor {
  readonly dataType: MLOperandDataType;
  readonly shape: readonly number[];
}

/** A tensor's type and shape, and what you may do with it. See https://www.w3.org/TR/webnn/#api-mltensordescriptor */
export interface MLTensorDescriptor extends MLOperandDescriptor {
  /** Whether `readTensor` is allowed. Default: `false`. */
  readable?: boolean;
  /** Whether `writeTensor` is allowed. Default: `false`. */
  writable?: boolean;
  /**
   * Whether `exportToGPU` is allowed, on a context made from a `GPUDevice`. From an earlier text of the WebGPU interop: while the tensor is exported,
   * work that depends on it waits. Default: `false`.
   */
  exportableToGPU?: boolean;
  /** Whether `importExternalBuffer` of `webnn-node/webgpu` is allowed. From an earlier text. Default: `false`. */
  importableToWebGPU?: boolean;
  /** Extension: shown in messages and readable as `tensor.label`. */
  label?: string;
}

/** A WebGPU `GPUDevice`: the global type if there is one, such as that of `@webgpu/types`; otherwise the members used here. */
export type MLGPUDevice = typeof globalThis extends { GPUDevice: { prototype: infer Device } }
  ? Device
  : { readonly queue: object; readonly lost: Promise<unknown>; createCommandEncoder(descriptor?: any): any };

/** A `GPUBuffer` over a tensor's memory; `destroy()`, or its alias `release()`, gives it back. */
export type MLGPUBuffer = (typeof globalThis extends { GPUBuffer: { prototype: infer Buffer } }
  ? Buffer
  : { readonly size: number; readonly usage: number; label: string; destroy(): unknown }) & { release(): void };

/** A WebGPU `GPUCommandBuffer`. */
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

/** Extension: an option to cancel work. */
export interface MLSignalOptions {
  /**
   * Cancels the work. The promise rejects with the signal's reason at once. On the CPU the work stops soon, even in the middle of an operator. If the
   * signal is already aborted, nothing begins.
   */
  signal?: AbortSignal;
}

/** Extension: the priority of work. */
export type MLPriority = 'high' | 'normal' | 'low';

/** Extension: the priority of work, how long it may wait, and how to cancel it. */
export interface MLScheduleOptions extends MLSignalOptions {
  /** More urgent work runs first, but no work waits for ever. Default: that of the context. */
  priority?: MLPriority;
  /**
   * Milliseconds from the call. Work that has not begun by then is dropped with a `TimeoutError`; work that has begun continues.
   * Default: that of the context.
   */
  timeout?: number;
}

/** Extension: options of `dispatch` and `compute`. */
export interface MLRunOptions extends MLLabelOptions, MLScheduleOptions {}

/** Extension: options of `build`. */
export interface MLBuildOptions extends MLLabelOptions, MLSignalOptions {
  /** Like the option of `createContext()`, for this graph. */
  cache?: boolean | string;
}

/** A number for a tensor of any type; use a `bigint` for large 64-bit integers. */
export type MLNumber = number | bigint;

/** Bytes, shared or not. */
export type AllowSharedBufferSource = ArrayBufferLike | ArrayBufferView;

/** Tensors by the names of the graph's inputs or outputs. */
export type MLNamedTensors = Record<string, MLTensor>;

/** Operands by the names of their outputs. */
export type MLNamedOperands = Record<string, MLOperand>;

/** Extension: typed arrays or `DataView`s, by the names of the graph's inputs or outputs. */
export type MLNamedArrayBufferViews = Record<string, ArrayBufferView>;

/** Extension: your memory after `compute`, as views of the same types and lengths. */
export interface MLComputeResult<
  Inputs extends MLNamedArrayBufferViews = MLNamedArrayBufferViews,
  Outputs extends MLNamedArrayBufferViews = MLNamedArrayBufferViews,
> {
  inputs: Inputs;
  outputs: Outputs;
}

/** Extension: a way to execute a graph. `'immediate'` blocks its thread and exists only in `worker_threads`. */
export type MLExecutionMode = 'immediate' | 'awaited' | 'queued' | 'timeline';

/** Why a context was lost. */
export interface MLContextLostInfo {
  message: string;
}

/** The smallest and the largest rank. */
export interface MLRankRange {
  min: number;
  max: number;
}

/** The data types and ranks that an operand may have. */
export interface MLTensorLimits {
  dataTypes: MLOperandDataType[];
  rankRange: MLRankRange;
}

/** Extension: the bytes that a context uses. */
export interface MLMemoryUsage {
  /** Tensors that are not destroyed, or that enqueued work still needs. */
  tensors: number;
  /** `packed`, `mapped` and `constants` together. */
  graphs: number;
  /** Weights in the layout of the kernels. Shared weights count for the graph that packed them first. */
  packed: number;
  /** Parts of mapped files: packed weights from the cache, constants of saved graphs, and of models loaded with `map: true`. */
  mapped: number;
  /** Unpacked constants, aligned copies of a model's weights, and constants of builders that are not built yet. */
  constants: number;
  /** Bytes of models that you passed or streamed. */
  sources: number;
  /** Descriptions of the steps of graphs. On GPUs, without the memory of the driver; on a `GPUDevice` they are in V8's heap, and not counted here. */
  plans: number;
  /** Shared weights that count for another graph; outside all sums. */
  shared: number;
  /** Intermediate results of graphs, kept between dispatches. */
  scratch: number;
  /** Caches and states of sequences. */
  caches: number;
  /** Data of `writeTensor()` that is not written yet. */
  pendingWrites: number;
  /** The highest sum so far of all numbers but `shared`; of `graphs`, without adding its parts again. */
  peak: number;
}

/** The entry point: `ml.createContext()`. See https://www.w3.org/TR/webnn/#api-ml */
export class ML {
  private constructor();
  /**
   * Creates a context: a device and its timeline.
   *
   * Rejects with `NotSupportedError` if the device is not available.
   */
  createContext(options?: MLContextOptions): Promise<MLContext>;
  /**
   * Creates a context that computes on a `GPUDevice` of any WebGPU implementation.
   *
   * Rejects with `InvalidStateError` if the device is lost.
   */
  createContext(gpuDevice: MLGPUDevice, options?: Pick<MLContextOptions, 'memoryLimit'>): Promise<MLContext>;
  readonly [Symbol.toStringTag]: 'ML';
}

/** The `ML` object of this module, `navigator.ml` in browsers. */
export const ml: ML;

/** A device and its timeline, which runs all work in order. See https://www.w3.org/TR/webnn/#api-mlcontext */
export class MLContext {
  private constructor();
  /** Whether a hardware accelerator was selected; a software GPU does not count. */
  readonly accelerated: boolean;
  /** Extension: how float32 products may be computed; `'strict'` on a GPU. */
  readonly fpMath: MLFPMath;
  /** Resolves when the context is destroyed or its device is lost. */
  readonly lost: Promise<MLContextLostInfo>;
  /** Extension: the label passed to `createContext`. */
  readonly label: string;
  /**
   * Enqueues an execution of a graph. The tensors must have exactly the data types and shapes of the graph's inputs and
   * outputs; use each tensor once. You may read the result at once: `readTensor` waits for it.
   *
   * Throws `TypeError` for unsuitable or destroyed tensors, `InvalidStateError` for a destroyed graph. If a signal cancels the dispatch, its outputs
   * become errored, and reading one rejects with the signal's reason.
   */
  dispatch(graph: MLGraph, inputs: MLNamedTensors, outputs: MLNamedTensors, options?: MLRunOptions): void;
  /** Creates a tensor of zeros. Rejects with `UnknownError` if there is not enough memory. */
  createTensor(descriptor: MLTensorDescriptor): Promise<MLTensor>;
  /** Creates a tensor of zeros that can be exported to a device; without a copy if it is the device of this context. */
  createExportableTensor(descriptor: MLTensorDescriptor, gpuDevice: MLGPUDevice): Promise<MLTensor>;
  /**
   * Exports a tensor as a buffer of its device. The buffer's `destroy()` gives the tensor back, with the bytes that WebGPU wrote. Returns the buffer
   * for a tensor that `createExportableTensor` made for the device of this context, otherwise a promise. `await` works for both.
   *
   * Meanwhile `dispatch`, `writeTensor` and `readTensor` refuse the tensor with `TypeError`, and another export returns the same buffer.
   */
  exportToGPU(tensor: MLTensor): MLGPUBuffer | Promise<MLGPUBuffer>;
  /** Creates a tensor for `MLGraphBuilder.constant(tensor)` with a copy of the bytes. */
  createConstantTensor(descriptor: MLOperandDescriptor & MLLabelOptions, inputData: AllowSharedBufferSource): Promise<MLTensor>;
  /** Resolves with a copy of the tensor's bytes, after all work enqueued before. */
  readTensor(tensor: MLTensor): Promise<ArrayBuffer>;
  /** Extension: the same with options. At least one must be set. */
  readTensor(tensor: MLTensor, options: MLScheduleOptions): Promise<ArrayBuffer>;
  /** Copies the tensor's bytes into your memory, which must have exactly their length. */
  readTensor(tensor: MLTensor, outputData: AllowSharedBufferSource, options?: MLScheduleOptions): Promise<undefined>;
  /** Enqueues a write. The bytes are copied before the method returns. */
  writeTensor(tensor: MLTensor, inputData: AllowSharedBufferSource, options?: MLLabelOptions): void;
  /**
   * Extension: runs a graph on your memory without a copy. The `ArrayBuffer`s of the views are transferred before the method
   * returns; the promise returns the memory as new views. Only the named outputs, at least one, are computed. Their memory must
   * not overlap any other.
   *
   * Rejects with `TypeError`, and transfers nothing, for unsuitable views and memory that cannot be transferred. Rejects with
   * `OperationError` or `InvalidStateError` if the execution fails, or the graph or context is destroyed meanwhile. Such an error
   * has the memory in its properties `inputs` and `outputs`; the reason of a signal, too, if it is an object.
   */
  compute<Inputs extends MLNamedArrayBufferViews, Outputs extends MLNamedArrayBufferViews>(
    graph: MLGraph,
    inputs: Inputs,
    outputs: Outputs,
    options?: MLRunOptions,
  ): Promise<MLComputeResult<Inputs, Outputs>>;
  /**
   * Extension: blocks the calling thread, fills the outputs, and returns your views. In `worker_threads` only; throws `InvalidStateError` on the
   * main thread.
   */
  computeSync<Inputs extends MLNamedArrayBufferViews, Outputs extends MLNamedArrayBufferViews>(
    graph: MLGraph,
    inputs: Inputs,
    outputs: Outputs,
    options?: MLLabelOptions,
  ): MLComputeResult<Inputs, Outputs>;
  /** Extension: blocks the calling thread and returns a copy of the tensor's bytes. In `worker_threads` only. */
  readTensorSync(tensor: MLTensor): ArrayBuffer;
  /**
   * Extension: enqueues recorded work, in order. A context made from a `GPUDevice` also takes `GPUCommandBuffer`s of that device.
   *
   * Throws `InvalidStateError`, and runs nothing, if one of its graphs or tensors was destroyed.
   */
  submit(commandBuffers: Iterable<MLCommandBuffer | MLGPUCommandBuffer>): void;
  /** Extension: the ways to execute a graph on this thread. */
  readonly executionModes: readonly MLExecutionMode[];
  /** The supported data types and ranks, for each operator and operand. */
  opSupportLimits(): MLOpSupportLimits;
  /**
   * Extension, as in the cache explainer: saves a graph of this context for later processes. It replaces a graph with this key. Any string is a key.
   *
   * Rejects with `NotSupportedError` if the graph has more than 1 MiB of constants and was built without `cache`, with `QuotaExceededError` if there
   * is no room, with `OperationError` if it cannot be written.
   */
  saveGraph(key: string, graph: MLGraph): Promise<undefined>;
  /**
   * Extension, as in the cache explainer: builds a saved graph, with the same results.
   *
   * Rejects with `NotFoundError` if there is none, with `OperationError` if this context cannot build it or its file is damaged.
   */
  loadGraph(key: string): Promise<MLGraph>;
  /** Extension, as in the cache explainer: the keys of saved graphs, the most recently used first. */
  listGraphs(): Promise<string[]>;
  /** Extension, as in the cache explainer: removes a saved graph, if there is one. Loaded graphs stay. */
  deleteGraph(key: string): undefined;
  /** Extension: resolves when `maxQueue` allows another run, in the order of the calls. */
  ready(): Promise<void>;
  /** Extension: the bytes that the context uses. */
  memoryUsage(): MLMemoryUsage;
  /** Rejects all pending work with `InvalidStateError`, resolves `lost`, and releases all memory of the context. */
  destroy(): void;
  /** Extension: `destroy()` for `using`, if the runtime has the symbol. */
  [Symbol.dispose](): void;
  readonly [Symbol.toStringTag]: 'MLContext';
}

/** A compiled graph. See https://www.w3.org/TR/webnn/#api-mlgraph */
export class MLGraph {
  private constructor();
  /** Extension: the label passed to `build`. */
  readonly label: string;
  /** Extension, as in Chromium: the devices that run the graph, `['cpu']` or `['gpu']`; frozen. */
  readonly devices: readonly ('cpu' | 'gpu')[];
  /** Extension, as in the cache explainer: the inputs by name; frozen. */
  readonly inputs: Readonly<Record<string, MLFrozenOperandDescriptor>>;
  /** Extension, as in the cache explainer: the outputs by name; frozen. */
  readonly outputs: Readonly<Record<string, MLFrozenOperandDescriptor>>;
  /** Releases the graph after the last enqueued dispatch. */
  destroy(): void;
  /** Extension: `destroy()` for `using`, if the runtime has the symbol. */
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
  /** The device to which a tensor of `createExportableTensor` can be exported; otherwise `null`. */
  readonly gpuDevice: MLGPUDevice | null;
  /** The `exportableToGPU` of its descriptor. */
  readonly exportableToGPU: boolean;
  /** Rejects its pending reads with `InvalidStateError` and releases the memory after the last dispatch that uses it. */
  destroy(): void;
  /** Extension: `destroy()` for `using`, if the runtime has the symbol. */
  [Symbol.dispose](): void;
  readonly [Symbol.toStringTag]: 'MLTensor';
}

/** Builds a graph. See https://www.w3.org/TR/webnn/#api-mlgraphbuilder */
export class MLGraphBuilder {
  constructor(context: MLContext);
  /** An input of the graph; `dispatch` binds a tensor to its name. */
  input(name: string, descriptor: MLOperandDescriptor): MLOperand;
  /** A constant with a copy of the bytes. */
  constant(descriptor: MLOperandDescriptor, buffer: AllowSharedBufferSource): MLOperand;
  /** A scalar constant; the value is clamped and rounded to the data type. */
  constant(dataType: MLOperandDataType, value: MLNumber): MLOperand;
  /** A constant with the contents of a tensor of `createConstantTensor`. */
  constant(tensor: MLTensor): MLOperand;
  /**
   * Compiles the part of the graph that the outputs need. You cannot use the builder afterwards.
   *
   * Rejects with `TypeError` for outputs that are inputs or constants, with `OperationError` if the device refuses.
   */
  build(outputs: MLNamedOperands, options?: MLBuildOptions): Promise<MLGraph>;
  /** Extension: releases the constants of a builder that you will not build. */
  destroy(): void;
  /** Extension: `destroy()` for `using`, if the runtime has the symbol. */
  [Symbol.dispose](): void;
  readonly [Symbol.toStringTag]: 'MLGraphBuilder';
}

/** Extension: records dispatches; submit them later, any number of times. */
export class MLCommandEncoder {
  constructor(context: MLContext);
  /** Announces a graph for dispatches here. */
  initializeGraph(graph: MLGraph): void;
  /**
   * Records a dispatch. The tensors are checked now.
   *
   * Throws like `MLContext.dispatch`. Throws `InvalidStateError` for a graph that was not initialized here, and after `finish`.
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

/** Extension: `MLContext.computeSync` with the name of the original proposal. In `worker_threads` only. */
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

/** Extension: `MLContext.compute` with the name of the original proposal. */
export class MLAwaitedExecution {
  constructor(context: MLContext);
  compute<Inputs extends MLNamedArrayBufferViews, Outputs extends MLNamedArrayBufferViews>(
    graph: MLGraph,
    inputs: Inputs,
    outputs: Outputs,
    options?: MLRunOptions,
  ): Promise<MLComputeResult<Inputs, Outputs>>;
  readonly [Symbol.toStringTag]: 'MLAwaitedExecution';
}
