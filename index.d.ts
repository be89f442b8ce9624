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

/** An enumeration of options. */
export type MLConv2dFilterOperandLayout = 'oihw' | 'hwio' | 'ohwi' | 'ihwo';

/** An enumeration of options. */
export type MLConvTranspose2dFilterOperandLayout = 'iohw' | 'hwoi' | 'ohwi';

/** An enumeration of options. */
export type MLGruWeightLayout = 'zrn' | 'rzn';

/** An enumeration of options. */
export type MLInputOperandLayout = 'nchw' | 'nhwc';

/** An enumeration of options. */
export type MLInterpolationMode = 'nearest-neighbor' | 'linear';

/** An enumeration of options. */
export type MLLstmWeightLayout = 'iofg' | 'ifgo';

/** The type of a tensor's elements. `'int4'` and `'uint4'`, two elements to a byte, are an extension for constants and (de)quantization. */
export type MLOperandDataType = 'float32' | 'float16' | 'int32' | 'uint32' | 'int64' | 'uint64' | 'int8' | 'uint8' | 'int4' | 'uint4';

/** An enumeration of options. */
export type MLPaddingMode = 'constant' | 'edge' | 'reflection';

/** An enumeration of options. */
export type MLRecurrentNetworkActivation = 'relu' | 'sigmoid' | 'tanh';

/** An enumeration of options. */
export type MLRecurrentNetworkDirection = 'forward' | 'backward' | 'both';

/** An enumeration of options. */
export type MLRoundingType = 'floor' | 'ceil';

/** Options of `argMin`, `argMax`. */
export interface MLArgMinMaxOptions extends MLOperatorOptions {
  /**
   * Whether to keep the axis, with size 1.
   * Default: `false`.
   */
  keepDimensions?: boolean;
  /**
   * The data type of the positions.
   * Default: `'int32'`.
   */
  outputDataType?: MLOperandDataType;
}

/** Options of `conv2d`. */
export interface MLConv2dOptions extends MLOperatorOptions {
  /**
   * Rows and columns of zeros around the input: [beginning height, ending height, beginning width, ending width].
   * Default: `[0, 0, 0, 0]`.
   */
  padding?: Iterable<number>;
  /**
   * The step of the filter: [height, width].
   * Default: `[1, 1]`.
   */
  strides?: Iterable<number>;
  /**
   * The distance between the filter's elements on the input: [height, width].
   * Default: `[1, 1]`.
   */
  dilations?: Iterable<number>;
  /**
   * The number of groups of channels; each group of output channels sees one of input channels.
   * Default: `1`.
   */
  groups?: number;
  /**
   * The layout of the input and of the output.
   * Default: `'nchw'`.
   */
  inputLayout?: MLInputOperandLayout;
  /**
   * The layout of the filter.
   * Default: `'oihw'`.
   */
  filterLayout?: MLConv2dFilterOperandLayout;
  /** The bias of each output channel: [outputChannels]. */
  bias?: MLOperand;
}

/** Options of `convTranspose2d`. */
export interface MLConvTranspose2dOptions extends MLOperatorOptions {
  /**
   * Rows and columns to remove from the output: [beginning height, ending height, beginning width, ending width].
   * Default: `[0, 0, 0, 0]`.
   */
  padding?: Iterable<number>;
  /**
   * The step of the filter on the output from one input element to the next: [height, width].
   * Default: `[1, 1]`.
   */
  strides?: Iterable<number>;
  /**
   * The distance between the filter's elements on the output: [height, width].
   * Default: `[1, 1]`.
   */
  dilations?: Iterable<number>;
  /**
   * Rows and columns added to the output's size, where strides leave it open: [height, width].
   * Default: `[0, 0]`.
   */
  outputPadding?: Iterable<number>;
  /** The output's size, [height, width]; outputPadding is then ignored. */
  outputSizes?: Iterable<number>;
  /**
   * The number of groups of channels; each group of output channels sees one of input channels. If these
   * are no multiple of groups, the last groups see fewer, or none.
   * Default: `1`.
   */
  groups?: number;
  /**
   * The layout of the input and of the output.
   * Default: `'nchw'`.
   */
  inputLayout?: MLInputOperandLayout;
  /**
   * The layout of the filter.
   * Default: `'iohw'`.
   */
  filterLayout?: MLConvTranspose2dFilterOperandLayout;
  /** The bias of each output channel: [outputChannels]. */
  bias?: MLOperand;
}

/** Options of `cumulativeSum`. */
export interface MLCumulativeSumOptions extends MLOperatorOptions {
  /**
   * Whether a sum excludes the value at its own place.
   * Default: `false`.
   */
  exclusive?: boolean;
  /**
   * Whether summing starts at the end of the axis.
   * Default: `false`.
   */
  reversed?: boolean;
}

/** Options of `clamp`. */
export interface MLClampOptions extends MLOperatorOptions {
  /** The lower bound; it must not be above `maxValue`, both taken as the input's data type. */
  minValue?: MLNumber;
  /** The upper bound. */
  maxValue?: MLNumber;
}

/** Options of `elu`. */
export interface MLEluOptions extends MLOperatorOptions {
  /**
   * The factor of the exponential part.
   * Default: `1`.
   */
  alpha?: number;
}

/** Options of `hardSigmoid`. */
export interface MLHardSigmoidOptions extends MLOperatorOptions {
  /**
   * The factor.
   * Default: `0.2`.
   */
  alpha?: number;
  /**
   * The summand.
   * Default: `0.5`.
   */
  beta?: number;
}

/** Options of `leakyRelu`. */
export interface MLLeakyReluOptions extends MLOperatorOptions {
  /**
   * The slope below zero.
   * Default: `0.01`.
   */
  alpha?: number;
}

/** Options of `linear`. */
export interface MLLinearOptions extends MLOperatorOptions {
  /**
   * The factor.
   * Default: `1`.
   */
  alpha?: number;
  /**
   * The summand.
   * Default: `0`.
   */
  beta?: number;
}

/** Options of `gather`, `gatherElements`. */
export interface MLGatherOptions extends MLOperatorOptions {
  /**
   * The axis that the indices refer to.
   * Default: `0`.
   */
  axis?: number;
}

/** Options of `gemm`. */
export interface MLGemmOptions extends MLOperatorOptions {
  /** The addend, multiplied by beta. */
  c?: MLOperand;
  /**
   * The factor of the product.
   * Default: `1`.
   */
  alpha?: number;
  /**
   * The factor of c.
   * Default: `1`.
   */
  beta?: number;
  /**
   * Whether a is transposed, as [k, m].
   * Default: `false`.
   */
  aTranspose?: boolean;
  /**
   * Whether b is transposed, as [n, k].
   * Default: `false`.
   */
  bTranspose?: boolean;
}

/** Options of `pad`. */
export interface MLPadOptions extends MLOperatorOptions {
  /**
   * The values at the edges: a constant value, copies of the outermost elements (`"edge"`), or the input mirrored
   * at these elements (`"reflection"`).
   * Default: `'constant'`.
   */
  mode?: MLPaddingMode;
  /**
   * The constant value; it is cast to the input's data type.
   * Default: `0`.
   */
  value?: MLNumber;
}

/** Options of `reverse`. */
export interface MLReverseOptions extends MLOperatorOptions {
  /** The axes to reverse; default: all. */
  axes?: Iterable<number>;
}

/** Options of `slice`. */
export interface MLSliceOptions extends MLOperatorOptions {
  /** The step between elements in each dimension; default: 1. */
  strides?: Iterable<number>;
}

/** Options of `split`. */
export interface MLSplitOptions extends MLOperatorOptions {
  /**
   * The axis to divide.
   * Default: `0`.
   */
  axis?: number;
}

/** Options of `transpose`. */
export interface MLTransposeOptions extends MLOperatorOptions {
  /** For each dimension of the output, the dimension of the input; default: the reverse order. */
  permutation?: Iterable<number>;
}

/** Options of `triangular`. */
export interface MLTriangularOptions extends MLOperatorOptions {
  /**
   * Whether to keep the upper triangle; otherwise the lower one.
   * Default: `true`.
   */
  upper?: boolean;
  /**
   * The diagonal that bounds the triangle: how far above the main diagonal it is, or below it if negative.
   * Default: `0`.
   */
  diagonal?: number;
}

/** Options of `batchNormalization`. */
export interface MLBatchNormalizationOptions extends MLOperatorOptions {
  /** The factor of each feature: [features]. Default: 1. */
  scale?: MLOperand;
  /** The offset of each feature: [features]. Default: 0. */
  bias?: MLOperand;
  /**
   * The axis of the features.
   * Default: `1`.
   */
  axis?: number;
  /**
   * A number added to the variance.
   * Default: `0.00001`.
   */
  epsilon?: number;
}

/** Options of `instanceNormalization`. */
export interface MLInstanceNormalizationOptions extends MLOperatorOptions {
  /** The factor of each channel: [channels]. Default: 1. */
  scale?: MLOperand;
  /** The offset of each channel: [channels]. Default: 0. */
  bias?: MLOperand;
  /**
   * A number added to the variance.
   * Default: `0.00001`.
   */
  epsilon?: number;
  /**
   * The layout of the input and of the output.
   * Default: `'nchw'`.
   */
  layout?: MLInputOperandLayout;
}

/** Options of `layerNormalization`. */
export interface MLLayerNormalizationOptions extends MLOperatorOptions {
  /** The factor, with the sizes of the axes. Default: 1. */
  scale?: MLOperand;
  /** The offset, with the sizes of the axes. Default: 0. */
  bias?: MLOperand;
  /** The axes over which mean and variance are taken; default: all but the first. */
  axes?: Iterable<number>;
  /**
   * A number added to the variance.
   * Default: `0.00001`.
   */
  epsilon?: number;
}

/** Options of `averagePool2d`, `l2Pool2d`, `maxPool2d`. */
export interface MLPool2dOptions extends MLOperatorOptions {
  /** The size of the window, [height, width]; default: the size of the input. */
  windowDimensions?: Iterable<number>;
  /**
   * Rows and columns of padding around the input, which do not count:
   * [beginning height, ending height, beginning width, ending width].
   * Default: `[0, 0, 0, 0]`.
   */
  padding?: Iterable<number>;
  /**
   * The step of the window: [height, width].
   * Default: `[1, 1]`.
   */
  strides?: Iterable<number>;
  /**
   * The distance between the window's elements on the input: [height, width].
   * Default: `[1, 1]`.
   */
  dilations?: Iterable<number>;
  /**
   * The layout of the input and of the output.
   * Default: `'nchw'`.
   */
  layout?: MLInputOperandLayout;
  /**
   * How to round the output's size: `ceil` keeps windows that only partly cover the padded input.
   * Default: `'floor'`.
   */
  outputShapeRounding?: MLRoundingType;
  /** The output's size, [height, width]: one of the two ways to round it; outputShapeRounding is then ignored. */
  outputSizes?: Iterable<number>;
}

/** Options of `gru`. */
export interface MLGruOptions extends MLOperatorOptions {
  /** The biases of the input, `[numDirections, 3 * hiddenSize]`; default: zeros. */
  bias?: MLOperand;
  /** The biases of the hidden state, `[numDirections, 3 * hiddenSize]`; default: zeros. */
  recurrentBias?: MLOperand;
  /** The hidden state before the first step, `[numDirections, batchSize, hiddenSize]`; default: zeros. */
  initialHiddenState?: MLOperand;
  /**
   * Whether the reset gate is applied after the hidden state's product with its weights, or before.
   * Default: `true`.
   */
  resetAfter?: boolean;
  /**
   * Whether to return the hidden state of each step, too.
   * Default: `false`.
   */
  returnSequence?: boolean;
  /**
   * The order of the steps: from the first to the last, from the last to the first, or both ways with two networks.
   * Default: `'forward'`.
   */
  direction?: MLRecurrentNetworkDirection;
  /**
   * The order of the gates in weights and biases: update (z), reset (r), new (n).
   * Default: `'zrn'`.
   */
  layout?: MLGruWeightLayout;
  /** Two functions: for the update and reset gates, and for the new gate. Default: sigmoid and tanh. */
  activations?: Iterable<MLRecurrentNetworkActivation>;
}

/** Options of `gruCell`. */
export interface MLGruCellOptions extends MLOperatorOptions {
  /** The biases of the input, `[3 * hiddenSize]`; default: zeros. */
  bias?: MLOperand;
  /** The biases of the hidden state, `[3 * hiddenSize]`; default: zeros. */
  recurrentBias?: MLOperand;
  /**
   * Whether the reset gate is applied after the hidden state's product with its weights, or before.
   * Default: `true`.
   */
  resetAfter?: boolean;
  /**
   * The order of the gates in weights and biases: update (z), reset (r), new (n).
   * Default: `'zrn'`.
   */
  layout?: MLGruWeightLayout;
  /** Two functions: for the update and reset gates, and for the new gate. Default: sigmoid and tanh. */
  activations?: Iterable<MLRecurrentNetworkActivation>;
}

/** Options of `lstm`. */
export interface MLLstmOptions extends MLOperatorOptions {
  /** The biases of the input, `[numDirections, 4 * hiddenSize]`; default: zeros. */
  bias?: MLOperand;
  /** The biases of the hidden state, `[numDirections, 4 * hiddenSize]`; default: zeros. */
  recurrentBias?: MLOperand;
  /**
   * The weights of the cell state for the input, output and forget gates, in this order, `[numDirections, 3 * hiddenSize]`; default:
   * zeros.
   */
  peepholeWeight?: MLOperand;
  /** The hidden state before the first step, `[numDirections, batchSize, hiddenSize]`; default: zeros. */
  initialHiddenState?: MLOperand;
  /** The cell state before the first step, `[numDirections, batchSize, hiddenSize]`; default: zeros. */
  initialCellState?: MLOperand;
  /**
   * Whether to return the hidden state of each step, too.
   * Default: `false`.
   */
  returnSequence?: boolean;
  /**
   * The order of the steps: from the first to the last, from the last to the first, or both ways with two networks.
   * Default: `'forward'`.
   */
  direction?: MLRecurrentNetworkDirection;
  /**
   * The order of the gates in weights and biases: input (i), output (o), forget (f), cell (g).
   * Default: `'iofg'`.
   */
  layout?: MLLstmWeightLayout;
  /**
   * Three functions: for the input, forget and output gates, for the cell gate, and for the cell state. Default: sigmoid,
   * tanh and tanh.
   */
  activations?: Iterable<MLRecurrentNetworkActivation>;
}

/** Options of `lstmCell`. */
export interface MLLstmCellOptions extends MLOperatorOptions {
  /** The biases of the input, `[4 * hiddenSize]`; default: zeros. */
  bias?: MLOperand;
  /** The biases of the hidden state, `[4 * hiddenSize]`; default: zeros. */
  recurrentBias?: MLOperand;
  /**
   * The weights of the cell state for the input, output and forget gates, in this order, `[3 * hiddenSize]`; default:
   * zeros.
   */
  peepholeWeight?: MLOperand;
  /**
   * The order of the gates in weights and biases: input (i), output (o), forget (f), cell (g).
   * Default: `'iofg'`.
   */
  layout?: MLLstmWeightLayout;
  /**
   * Three functions: for the input, forget and output gates, for the cell gate, and for the cell state. Default: sigmoid,
   * tanh and tanh.
   */
  activations?: Iterable<MLRecurrentNetworkActivation>;
}

/** Options of `reduceL1`, `reduceSum`, `reduceSumSquare`, `reduceProduct`, `reduceL2`, `reduceLogSum`, `reduceLogSumExp`, `reduceMean`, `reduceMax`, `reduceMin`. */
export interface MLReduceOptions extends MLOperatorOptions {
  /**
   * The axes to reduce, each once. Default: all. With an empty list no axis is reduced, and
   * each value is reduced alone.
   */
  axes?: Iterable<number>;
  /**
   * Whether to keep reduced axes, with size 1.
   * Default: `false`.
   */
  keepDimensions?: boolean;
}

/** Options of `resample2d`. */
export interface MLResample2dOptions extends MLOperatorOptions {
  /**
   * How to interpolate between elements.
   * Default: `'nearest-neighbor'`.
   */
  mode?: MLInterpolationMode;
  /**
   * The factors of the two sizes, in the order of axes.
   * Default: `[1.0, 1.0]`.
   */
  scales?: Iterable<number>;
  /** The two sizes, in the order of axes; scales is then ignored. */
  sizes?: Iterable<number>;
  /**
   * The two dimensions to resample.
   * Default: `[2, 3]`.
   */
  axes?: Iterable<number>;
}

/** Options of `scatterElements`. */
export interface MLScatterOptions extends MLOperatorOptions {
  /**
   * The axis that the indices refer to.
   * Default: `0`.
   */
  axis?: number;
}

export interface MLGraphBuilder {
  /**
   * Finds the positions of the smallest values along the axis; the first of several, or the first NaN.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 1 to 8
   * - result `output`: int32, int64; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-argminmax
   */
  argMin(input: MLOperand, axis: number, options?: MLArgMinMaxOptions): MLOperand;
  /**
   * Finds the positions of the greatest values along the axis; the first of several, or the first NaN.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 1 to 8
   * - result `output`: int32, int64; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-argminmax
   */
  argMax(input: MLOperand, axis: number, options?: MLArgMinMaxOptions): MLOperand;
  /**
   * Computes a 2-D convolution of a 4-D input with a 4-D filter. In the default layouts an input
   * [batches, inputChannels, height, width] and a filter [outputChannels, inputChannels / groups, filterHeight,
   * filterWidth] give an output [batches, outputChannels, outputHeight, outputWidth].
   *
   * - `input`: float32, float16; rank 4
   * - `filter`: the type of `input`; rank 4
   * - `bias`: the type of `input`; rank 1
   * - result `output`: the type of `input`; rank 4
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-conv2d
   */
  conv2d(input: MLOperand, filter: MLOperand, options?: MLConv2dOptions): MLOperand;
  /**
   * Computes a transposed 2-D convolution of a 4-D input with a 4-D filter: every input value adds a multiple of the
   * filter to the output. In the default layouts an input [batches, inputChannels, height, width] and a filter
   * [inputChannels, outputChannels / groups, filterHeight, filterWidth] give an output [batches, outputChannels,
   * outputHeight, outputWidth].
   *
   * - `input`: float32, float16; rank 4
   * - `filter`: the type of `input`; rank 4
   * - `bias`: the type of `input`; rank 1
   * - result `output`: the type of `input`; rank 4
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-convtranspose2d
   */
  convTranspose2d(input: MLOperand, filter: MLOperand, options?: MLConvTranspose2dOptions): MLOperand;
  /**
   * Sums the values along the axis up to each place. Integers wrap around.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64; ranks 1 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-cumulativesum
   */
  cumulativeSum(input: MLOperand, axis: number, options?: MLCumulativeSumOptions): MLOperand;
  /**
   * Computes the rectified linear function `max(0, x)`, element by element.
   *
   * - `input`: float32, float16, int32, int64, int8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-relu-method
   */
  relu(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the Gaussian error linear unit `0.5 * x * (1 + erf(x / sqrt(2)))`, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gelu-method
   */
  gelu(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes `x * max(0, min(6, x + 3)) / 6`, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-hard-swish
   */
  hardSwish(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the sigmoid function `1 / (exp(-x) + 1)`, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-sigmoid-method
   */
  sigmoid(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the softplus function `ln(1 + exp(x))`, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-softplus-method
   */
  softplus(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the softsign function `x / (1 + |x|)`, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-softsign-method
   */
  softsign(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the hyperbolic tangent, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-tanh-method
   */
  tanh(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Adds the values of the two operands, element by element. Integers wrap around.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: the type of `a`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-binary
   */
  add(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Subtracts the values of the second operand from those of the first, element by element. Integers wrap around.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: the type of `a`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-binary
   */
  sub(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Multiplies the values of the two operands, element by element. Integers wrap around.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: the type of `a`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-binary
   */
  mul(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Divides the values of the first operand by those of the second, element by element. Integers are truncated
   * towards zero; an integer divided by zero gives 0.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: the type of `a`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-binary
   */
  div(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the maximum of the two operands, element by element; NaN if either is NaN.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: the type of `a`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-binary
   */
  max(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the minimum of the two operands, element by element; NaN if either is NaN.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: the type of `a`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-binary
   */
  min(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Raises the values of the first operand to the powers given by the second, element by element.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: the type of `a`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-binary
   */
  pow(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Converts every element to another data type. Floating-point values are truncated to integers and limited to
   * the range of the type (NaN gives 0); integers keep their lowest bits.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: float32, float16, int32, uint32, int64, uint64, int8, uint8; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-cast
   */
  cast(input: MLOperand, dataType: MLOperandDataType, options?: MLOperatorOptions): MLOperand;
  /**
   * Limits values to the range from `minValue` to `maxValue`, element by element. A bound that
   * is missing does not limit.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-clamp
   */
  clamp(input: MLOperand, options?: MLClampOptions): MLOperand;
  /**
   * Computes floating-point values `(input - zeroPoint) * scale` from quantized ones. `scale` and `zeroPoint` have
   * one shape of the input's rank, whose sizes divide the input's: each of their elements is for a block.
   *
   * - `input`: int32, uint32, int8, uint8, int4, uint4; ranks 0 to 8
   * - `scale`: float32, float16; ranks 0 to 8
   * - `zeroPoint`: the type of `input`; ranks 0 to 8
   * - result `output`: the type of `scale`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-dequantizelinear
   */
  dequantizeLinear(input: MLOperand, scale: MLOperand, zeroPoint: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the exponential linear unit `max(0, x) + alpha * (exp(min(0, x)) - 1)`, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-elu
   */
  elu(input: MLOperand, options?: MLEluOptions): MLOperand;
  /**
   * Computes `max(0, min(1, alpha * x + beta))`, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-hard-sigmoid
   */
  hardSigmoid(input: MLOperand, options?: MLHardSigmoidOptions): MLOperand;
  /**
   * Computes `max(0, x) + alpha * min(0, x)`, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-leakyrelu
   */
  leakyRelu(input: MLOperand, options?: MLLeakyReluOptions): MLOperand;
  /**
   * Computes `alpha * x + beta`, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-linear
   */
  linear(input: MLOperand, options?: MLLinearOptions): MLOperand;
  /**
   * Tells whether the values of the two operands are equal, element by element: 1 or 0.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: uint8; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical
   */
  equal(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Tells whether the values of the two operands differ, element by element: 1 or 0.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: uint8; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical
   */
  notEqual(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Tells whether the values of the first operand are greater than those of the second, element by element: 1 or 0.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: uint8; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical
   */
  greater(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Tells whether the values of the first operand are greater than or equal to those of the second, element by
   * element: 1 or 0.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: uint8; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical
   */
  greaterOrEqual(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Tells whether the values of the first operand are less than those of the second, element by element: 1 or 0.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: uint8; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical
   */
  lesser(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Tells whether the values of the first operand are less than or equal to those of the second, element by
   * element: 1 or 0.
   *
   * - `a`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: uint8; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical
   */
  lesserOrEqual(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Tells whether both values are true, element by element: 1 or 0. Every value but 0 counts as true.
   *
   * - `a`: uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: uint8; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical
   */
  logicalAnd(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Tells whether at least one of the two values is true, element by element: 1 or 0. Every value but 0 counts as true.
   *
   * - `a`: uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: uint8; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical
   */
  logicalOr(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Tells whether exactly one of the two values is true, element by element: 1 or 0. Every value but 0 counts as true.
   *
   * - `a`: uint8; ranks 0 to 8
   * - `b`: the type of `a`; ranks 0 to 8
   * - result `output`: uint8; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical
   */
  logicalXor(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Inverts truth values, element by element: 1 for 0, and 0 for everything else.
   *
   * - `a`: uint8; ranks 0 to 8
   * - result `output`: uint8; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical
   */
  logicalNot(a: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Tells which values are NaN, element by element: 1 or 0.
   *
   * - `a`: float32, float16; ranks 0 to 8
   * - result `output`: uint8; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical
   */
  isNaN(a: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Tells which values are positive or negative infinity, element by element: 1 or 0.
   *
   * - `a`: float32, float16; ranks 0 to 8
   * - result `output`: uint8; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-logical
   */
  isInfinite(a: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes `max(0, x) + slope * min(0, x)`, element by element. The input and the slope are broadcast to each
   * other.
   *
   * - `input`: float32, float16, int32, int64, int8; ranks 0 to 8
   * - `slope`: the type of `input`; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-prelu
   */
  prelu(input: MLOperand, slope: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes quantized values `roundEven(input / scale) + zeroPoint`, limited to the range of the data type of
   * `zeroPoint`, which is the output's. `scale` and `zeroPoint` have one shape of the input's rank, whose sizes
   * divide the input's: each of their elements is for a block.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - `scale`: the type of `input`; ranks 0 to 8
   * - `zeroPoint`: int32, uint32, int8, uint8, int4, uint4; ranks 0 to 8
   * - result `output`: the type of `zeroPoint`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-quantizelinear
   */
  quantizeLinear(input: MLOperand, scale: MLOperand, zeroPoint: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the absolute value, element by element.
   *
   * - `input`: float32, float16, int32, int64, int8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  abs(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the negative value, element by element.
   *
   * - `input`: float32, float16, int32, int64, int8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  neg(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the sign, element by element: 1 for positive values, -1 for negative ones, otherwise 0.
   *
   * - `input`: float32, float16, int32, int64, int8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  sign(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Rounds up to a whole number, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  ceil(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the cosine of an angle in radians, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  cos(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the error function, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  erf(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the exponential function, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  exp(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Rounds down to a whole number, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  floor(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the natural logarithm, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  log(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the reciprocal, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  reciprocal(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Rounds to the nearest whole number, halves to the even one, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  roundEven(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the sine of an angle in radians, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  sin(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the square root, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  sqrt(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes the tangent of an angle in radians, element by element.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  tan(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Returns the values of the input unchanged.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-unary
   */
  identity(input: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Selects `trueValue` where the condition is not 0, and `falseValue` where it is 0, element by
   * element. All three are broadcast to each other.
   *
   * - `condition`: uint8; ranks 0 to 8
   * - `trueValue`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - `falseValue`: the type of `trueValue`; ranks 0 to 8
   * - result `output`: the type of `trueValue`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-where
   */
  where(condition: MLOperand, trueValue: MLOperand, falseValue: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Gathers slices of the input along an axis, at the given indices. The axis is replaced by the dimensions of the
   * indices. A negative index counts from the end; one that is out of range is clamped.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 1 to 8
   * - `indices`: int32, uint32, int64; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 1 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gather
   */
  gather(input: MLOperand, indices: MLOperand, options?: MLGatherOptions): MLOperand;
  /**
   * Gathers one element of the input for each index: the one at the index's own position, but with the index itself
   * along the axis. The indices have the input's shape except for the size of the axis, and the output has
   * theirs. A negative index counts from the end; one that is out of range is clamped.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 1 to 8
   * - `indices`: int32, uint32, int64; the rank of `input`
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gatherelements
   */
  gatherElements(input: MLOperand, indices: MLOperand, options?: MLGatherOptions): MLOperand;
  /**
   * Gathers slices of the input at coordinates: the last dimension of the indices holds a coordinate for each of the
   * input's first dimensions. The output has the other dimensions of the indices, and then those of a slice. A
   * negative index counts from the end; one that is out of range is clamped.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 1 to 8
   * - `indices`: int32, uint32, int64; ranks 1 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gathernd
   */
  gatherND(input: MLOperand, indices: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Computes alpha * a * b + beta * c, where a is [m, k], b is [k, n] (each possibly given transposed) and c can be
   * broadcast to the output's shape [m, n].
   *
   * - `a`: float32, float16; rank 2
   * - `b`: the type of `a`; rank 2
   * - `c`: the type of `a`; ranks 0 to 2
   * - result `output`: the type of `a`; rank 2
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gemm
   */
  gemm(a: MLOperand, b: MLOperand, options?: MLGemmOptions): MLOperand;
  /**
   * Multiplies matrices: a [..., m, k] and b [..., k, n] give [..., m, n]. The dimensions before the last two are
   * broadcast to each other.
   *
   * - `a`: float32, float16; ranks 2 to 8
   * - `b`: the type of `a`; ranks 2 to 8
   * - result `output`: the type of `a`; ranks 2 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-matmul
   */
  matmul(a: MLOperand, b: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Joins the inputs, one after the other, along an axis. They have the same data type, rank and sizes, except
   * for the size of that axis, which is the sum of theirs in the output.
   *
   * - `inputs`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 1 to 8
   * - result `output`: the type of `inputs`; the rank of `inputs`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
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
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-expand
   */
  expand(input: MLOperand, newShape: Iterable<number>, options?: MLOperatorOptions): MLOperand;
  /**
   * Adds elements before and after the input in each dimension: a constant value, copies of the
   * outermost elements, or the input mirrored at its edges.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pad
   */
  pad(input: MLOperand, beginningPadding: Iterable<number>, endingPadding: Iterable<number>, options?: MLPadOptions): MLOperand;
  /**
   * Changes the shape of the input, with the same number of elements. The elements and their order stay the same.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reshape-method
   */
  reshape(input: MLOperand, newShape: Iterable<number>, options?: MLOperatorOptions): MLOperand;
  /**
   * Reverses the order of the elements along the axes, or along all of them if none are given.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reverse-method
   */
  reverse(input: MLOperand, options?: MLReverseOptions): MLOperand;
  /**
   * Takes a part of the input: in each dimension a range with a start and a size, and every
   * stride-th element of it.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-slice
   */
  slice(input: MLOperand, starts: Iterable<number>, sizes: Iterable<number>, options?: MLSliceOptions): MLOperand;
  /**
   * Divides the input along an axis, into a number of equal parts or into parts of the listed sizes.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 1 to 8
   * - result `outputs`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-split
   */
  split(input: MLOperand, splits: number | Iterable<number>, options?: MLSplitOptions): MLOperand[];
  /**
   * Repeats the input along each dimension.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
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
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-transpose
   */
  transpose(input: MLOperand, options?: MLTransposeOptions): MLOperand;
  /**
   * Keeps the upper or the lower triangle of a matrix, or of each matrix of a batch, with the diagonal that bounds
   * it, and puts zeros elsewhere.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 2 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-triangular
   */
  triangular(input: MLOperand, options?: MLTriangularOptions): MLOperand;
  /**
   * Normalizes the input with the given mean and variance of each feature along one axis:
   * scale * (input - mean) / sqrt(variance + epsilon) + bias. The other operands are 1-D, of that axis's size.
   *
   * - `input`: float32, float16; ranks 1 to 8
   * - `mean`: the type of `input`; rank 1
   * - `variance`: the type of `input`; rank 1
   * - `scale`: the type of `input`; rank 1
   * - `bias`: the type of `input`; rank 1
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-batchnorm
   */
  batchNormalization(input: MLOperand, mean: MLOperand, variance: MLOperand, options?: MLBatchNormalizationOptions): MLOperand;
  /**
   * Normalizes each channel of each batch of a 4-D input with its own mean and variance over the two spatial
   * dimensions. scale and bias are 1-D, of the number of channels.
   *
   * - `input`: float32, float16; rank 4
   * - `scale`: the type of `input`; rank 1
   * - `bias`: the type of `input`; rank 1
   * - result `output`: the type of `input`; rank 4
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-instancenorm
   */
  instanceNormalization(input: MLOperand, options?: MLInstanceNormalizationOptions): MLOperand;
  /**
   * Normalizes the input with its own mean and variance over the given axes (all but the first if they are not
   * given). scale and bias have the sizes of these axes, in their order.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - `scale`: the type of `input`; ranks 0 to 8
   * - `bias`: the type of `input`; ranks 0 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-layernorm
   */
  layerNormalization(input: MLOperand, options?: MLLayerNormalizationOptions): MLOperand;
  /**
   * Computes the mean of every window over the two spatial dimensions; padding is not counted.
   *
   * - `input`: float32, float16; rank 4
   * - result `output`: the type of `input`; rank 4
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pool2d
   */
  averagePool2d(input: MLOperand, options?: MLPool2dOptions): MLOperand;
  /**
   * Computes the L2 norm of every window over the two spatial dimensions: the root of the sum of squares.
   *
   * - `input`: float32, float16; rank 4
   * - result `output`: the type of `input`; rank 4
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pool2d
   */
  l2Pool2d(input: MLOperand, options?: MLPool2dOptions): MLOperand;
  /**
   * Computes the maximum of every window over the two spatial dimensions.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; rank 4
   * - result `output`: the type of `input`; rank 4
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-pool2d
   */
  maxPool2d(input: MLOperand, options?: MLPool2dOptions): MLOperand;
  /**
   * Runs gated recurrent units over an input of shape `[steps, batchSize, inputSize]`. Returns the last hidden
   * state, `[numDirections, batchSize, hiddenSize]`, and with `returnSequence` also that of each step,
   * `[steps, numDirections, batchSize, hiddenSize]`.
   *
   * - `input`: float32, float16; rank 3
   * - `weight`: the type of `input`; rank 3
   * - `recurrentWeight`: the type of `input`; rank 3
   * - `bias`: the type of `input`; rank 2
   * - `recurrentBias`: the type of `input`; rank 2
   * - `initialHiddenState`: the type of `input`; rank 3
   * - result `output0`: the type of `input`; rank 3
   * - result `output1`: the type of `input`; rank 4
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-gru
   */
  gru(input: MLOperand, weight: MLOperand, recurrentWeight: MLOperand, steps: number, hiddenSize: number, options?: MLGruOptions): MLOperand[];
  /**
   * Takes one step of gated recurrent units, with an input of shape `[batchSize, inputSize]`. Returns the new
   * hidden state, `[batchSize, hiddenSize]`.
   *
   * - `input`: float32, float16; rank 2
   * - `weight`: the type of `input`; rank 2
   * - `recurrentWeight`: the type of `input`; rank 2
   * - `hiddenState`: the type of `input`; rank 2
   * - `bias`: the type of `input`; rank 1
   * - `recurrentBias`: the type of `input`; rank 1
   * - result `output`: the type of `input`; rank 2
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-grucell
   */
  gruCell(input: MLOperand, weight: MLOperand, recurrentWeight: MLOperand, hiddenState: MLOperand, hiddenSize: number, options?: MLGruCellOptions): MLOperand;
  /**
   * Runs a network of long short-term memory over an input of shape `[steps, batchSize, inputSize]`. Returns the
   * last hidden state and the last cell state, each `[numDirections, batchSize, hiddenSize]`, and with
   * `returnSequence` also the hidden state of each step, `[steps, numDirections, batchSize, hiddenSize]`.
   *
   * - `input`: float32, float16; rank 3
   * - `weight`: the type of `input`; rank 3
   * - `recurrentWeight`: the type of `input`; rank 3
   * - `bias`: the type of `input`; rank 2
   * - `recurrentBias`: the type of `input`; rank 2
   * - `peepholeWeight`: the type of `input`; rank 2
   * - `initialHiddenState`: the type of `input`; rank 3
   * - `initialCellState`: the type of `input`; rank 3
   * - result `output0`: the type of `input`; rank 3
   * - result `output1`: the type of `input`; rank 3
   * - result `output2`: the type of `input`; rank 4
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-lstm
   */
  lstm(input: MLOperand, weight: MLOperand, recurrentWeight: MLOperand, steps: number, hiddenSize: number, options?: MLLstmOptions): MLOperand[];
  /**
   * Takes one step of long short-term memory, with an input of shape `[batchSize, inputSize]`. Returns the new
   * hidden state and the new cell state, each `[batchSize, hiddenSize]`.
   *
   * - `input`: float32, float16; rank 2
   * - `weight`: the type of `input`; rank 2
   * - `recurrentWeight`: the type of `input`; rank 2
   * - `hiddenState`: the type of `input`; rank 2
   * - `cellState`: the type of `input`; rank 2
   * - `bias`: the type of `input`; rank 1
   * - `recurrentBias`: the type of `input`; rank 1
   * - `peepholeWeight`: the type of `input`; rank 1
   * - result `output0`: the type of `input`; rank 2
   * - result `output1`: the type of `input`; rank 2
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-lstmcell
   */
  lstmCell(input: MLOperand, weight: MLOperand, recurrentWeight: MLOperand, hiddenState: MLOperand, cellState: MLOperand, hiddenSize: number, options?: MLLstmCellOptions): MLOperand[];
  /**
   * Sums the absolute values along the axes. Integers wrap around.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reduce
   */
  reduceL1(input: MLOperand, options?: MLReduceOptions): MLOperand;
  /**
   * Sums the values along the axes, whatever their order: a sum of floats that is in the range of the type does not overflow
   * on the way. Integers wrap around.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reduce
   */
  reduceSum(input: MLOperand, options?: MLReduceOptions): MLOperand;
  /**
   * Sums the squares of the values along the axes. Integers wrap around.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reduce
   */
  reduceSumSquare(input: MLOperand, options?: MLReduceOptions): MLOperand;
  /**
   * Multiplies the values along the axes with each other, whatever their order: a product of floats that is in the range of the
   * type does not overflow on the way. Integers wrap around.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reduce
   */
  reduceProduct(input: MLOperand, options?: MLReduceOptions): MLOperand;
  /**
   * Computes the square root of the sum of the squares along the axes.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reduce
   */
  reduceL2(input: MLOperand, options?: MLReduceOptions): MLOperand;
  /**
   * Computes the natural logarithm of the sum of the values along the axes.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reduce
   */
  reduceLogSum(input: MLOperand, options?: MLReduceOptions): MLOperand;
  /**
   * Computes the natural logarithm of the sum of the exponentials of the values along the axes.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reduce
   */
  reduceLogSumExp(input: MLOperand, options?: MLReduceOptions): MLOperand;
  /**
   * Computes the mean of the values along the axes.
   *
   * - `input`: float32, float16; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reduce
   */
  reduceMean(input: MLOperand, options?: MLReduceOptions): MLOperand;
  /**
   * Computes the maximum of the values along the axes; NaN if one of them is NaN.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reduce
   */
  reduceMax(input: MLOperand, options?: MLReduceOptions): MLOperand;
  /**
   * Computes the minimum of the values along the axes; NaN if one of them is NaN.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 0 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-reduce
   */
  reduceMin(input: MLOperand, options?: MLReduceOptions): MLOperand;
  /**
   * Resamples two dimensions of a 4-D input (its last two, unless axes says otherwise) to the given sizes, or to their
   * own sizes times the given scales, by the nearest element or by linear interpolation.
   *
   * - `input`: float32, float16, int8, uint8; rank 4
   * - result `output`: the type of `input`; rank 4
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-resample2d-method
   */
  resample2d(input: MLOperand, options?: MLResample2dOptions): MLOperand;
  /**
   * Replaces one element of the input for each index: the one at the index's own position, but with the index
   * itself along the axis. The indices have the input's shape except for the size of the axis, and the updates,
   * which hold the new elements, have theirs. A negative index counts from the end; one that is out of range is
   * clamped.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 1 to 8
   * - `indices`: int32, uint32, int64; the rank of `input`
   * - `updates`: the type of `input`; the rank of `input`
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-scatterelements
   */
  scatterElements(input: MLOperand, indices: MLOperand, updates: MLOperand, options?: MLScatterOptions): MLOperand;
  /**
   * Replaces slices of the input at coordinates: the last dimension of the indices holds a coordinate for each of
   * the input's first dimensions. The updates, which hold the new slices, have the other dimensions of the
   * indices, and then those of a slice. A negative index counts from the end; one that is out of range is
   * clamped.
   *
   * - `input`: float32, float16, int32, uint32, int64, uint64, int8, uint8; ranks 1 to 8
   * - `indices`: int32, uint32, int64; ranks 1 to 8
   * - `updates`: the type of `input`; ranks 0 to 8
   * - result `output`: the type of `input`; ranks 1 to 8
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-scatternd
   */
  scatterND(input: MLOperand, indices: MLOperand, updates: MLOperand, options?: MLOperatorOptions): MLOperand;
  /**
   * Divides the exponential of every value by the sum of those along the axis, which gives values from 0 to 1
   * whose sum along the axis is 1.
   *
   * - `input`: float32, float16; ranks 1 to 8
   * - result `output`: the type of `input`; the rank of `input`
   *
   * Throws `TypeError` for unsuitable operands, `InvalidStateError` if the builder can no longer build.
   *
   * See https://www.w3.org/TR/webnn/#api-mlgraphbuilder-softmax-method
   */
  softmax(input: MLOperand, axis: number, options?: MLOperatorOptions): MLOperand;
}

/** What a context can do. See https://www.w3.org/TR/webnn/#api-mlcontext-opsupportlimits */
export interface MLOpSupportLimits {
  preferredInputLayout: MLInputOperandLayout;
  maxTensorByteLength: number;
  input: MLTensorLimits;
  constant: MLTensorLimits;
  output: MLTensorLimits;
  argMin: { input: MLTensorLimits; output: MLTensorLimits };
  argMax: { input: MLTensorLimits; output: MLTensorLimits };
  conv2d: { input: MLTensorLimits; filter: MLTensorLimits; bias: MLTensorLimits; output: MLTensorLimits };
  convTranspose2d: { input: MLTensorLimits; filter: MLTensorLimits; bias: MLTensorLimits; output: MLTensorLimits };
  cumulativeSum: { input: MLTensorLimits; output: MLTensorLimits };
  relu: { input: MLTensorLimits; output: MLTensorLimits };
  gelu: { input: MLTensorLimits; output: MLTensorLimits };
  hardSwish: { input: MLTensorLimits; output: MLTensorLimits };
  sigmoid: { input: MLTensorLimits; output: MLTensorLimits };
  softplus: { input: MLTensorLimits; output: MLTensorLimits };
  softsign: { input: MLTensorLimits; output: MLTensorLimits };
  tanh: { input: MLTensorLimits; output: MLTensorLimits };
  add: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  sub: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  mul: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  div: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  max: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  min: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  pow: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  cast: { input: MLTensorLimits; output: MLTensorLimits };
  clamp: { input: MLTensorLimits; output: MLTensorLimits };
  dequantizeLinear: { input: MLTensorLimits; scale: MLTensorLimits; zeroPoint: MLTensorLimits; output: MLTensorLimits };
  elu: { input: MLTensorLimits; output: MLTensorLimits };
  hardSigmoid: { input: MLTensorLimits; output: MLTensorLimits };
  leakyRelu: { input: MLTensorLimits; output: MLTensorLimits };
  linear: { input: MLTensorLimits; output: MLTensorLimits };
  equal: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  notEqual: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  greater: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  greaterOrEqual: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  lesser: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  lesserOrEqual: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  logicalAnd: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  logicalOr: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  logicalXor: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
  logicalNot: { a: MLTensorLimits; output: MLTensorLimits };
  isNaN: { a: MLTensorLimits; output: MLTensorLimits };
  isInfinite: { a: MLTensorLimits; output: MLTensorLimits };
  prelu: { input: MLTensorLimits; slope: MLTensorLimits; output: MLTensorLimits };
  quantizeLinear: { input: MLTensorLimits; scale: MLTensorLimits; zeroPoint: MLTensorLimits; output: MLTensorLimits };
  abs: { input: MLTensorLimits; output: MLTensorLimits };
  neg: { input: MLTensorLimits; output: MLTensorLimits };
  sign: { input: MLTensorLimits; output: MLTensorLimits };
  ceil: { input: MLTensorLimits; output: MLTensorLimits };
  cos: { input: MLTensorLimits; output: MLTensorLimits };
  erf: { input: MLTensorLimits; output: MLTensorLimits };
  exp: { input: MLTensorLimits; output: MLTensorLimits };
  floor: { input: MLTensorLimits; output: MLTensorLimits };
  log: { input: MLTensorLimits; output: MLTensorLimits };
  reciprocal: { input: MLTensorLimits; output: MLTensorLimits };
  roundEven: { input: MLTensorLimits; output: MLTensorLimits };
  sin: { input: MLTensorLimits; output: MLTensorLimits };
  sqrt: { input: MLTensorLimits; output: MLTensorLimits };
  tan: { input: MLTensorLimits; output: MLTensorLimits };
  identity: { input: MLTensorLimits; output: MLTensorLimits };
  where: { condition: MLTensorLimits; trueValue: MLTensorLimits; falseValue: MLTensorLimits; output: MLTensorLimits };
  gather: { input: MLTensorLimits; indices: MLTensorLimits; output: MLTensorLimits };
  gatherElements: { input: MLTensorLimits; indices: MLTensorLimits; output: MLTensorLimits };
  gatherND: { input: MLTensorLimits; indices: MLTensorLimits; output: MLTensorLimits };
  gemm: { a: MLTensorLimits; b: MLTensorLimits; c: MLTensorLimits; output: MLTensorLimits };
  matmul: { a: MLTensorLimits; b: MLTensorLimits; output: MLTensorLimits };
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
  batchNormalization: { input: MLTensorLimits; mean: MLTensorLimits; variance: MLTensorLimits; scale: MLTensorLimits; bias: MLTensorLimits; output: MLTensorLimits };
  instanceNormalization: { input: MLTensorLimits; scale: MLTensorLimits; bias: MLTensorLimits; output: MLTensorLimits };
  layerNormalization: { input: MLTensorLimits; scale: MLTensorLimits; bias: MLTensorLimits; output: MLTensorLimits };
  averagePool2d: { input: MLTensorLimits; output: MLTensorLimits };
  l2Pool2d: { input: MLTensorLimits; output: MLTensorLimits };
  maxPool2d: { input: MLTensorLimits; output: MLTensorLimits };
  gru: { input: MLTensorLimits; weight: MLTensorLimits; recurrentWeight: MLTensorLimits; bias: MLTensorLimits; recurrentBias: MLTensorLimits; initialHiddenState: MLTensorLimits; output0: MLTensorLimits; output1: MLTensorLimits };
  gruCell: { input: MLTensorLimits; weight: MLTensorLimits; recurrentWeight: MLTensorLimits; hiddenState: MLTensorLimits; bias: MLTensorLimits; recurrentBias: MLTensorLimits; output: MLTensorLimits };
  lstm: { input: MLTensorLimits; weight: MLTensorLimits; recurrentWeight: MLTensorLimits; bias: MLTensorLimits; recurrentBias: MLTensorLimits; peepholeWeight: MLTensorLimits; initialHiddenState: MLTensorLimits; initialCellState: MLTensorLimits; output0: MLTensorLimits; output1: MLTensorLimits; output2: MLTensorLimits };
  lstmCell: { input: MLTensorLimits; weight: MLTensorLimits; recurrentWeight: MLTensorLimits; hiddenState: MLTensorLimits; cellState: MLTensorLimits; bias: MLTensorLimits; recurrentBias: MLTensorLimits; peepholeWeight: MLTensorLimits; output0: MLTensorLimits; output1: MLTensorLimits };
  reduceL1: { input: MLTensorLimits; output: MLTensorLimits };
  reduceSum: { input: MLTensorLimits; output: MLTensorLimits };
  reduceSumSquare: { input: MLTensorLimits; output: MLTensorLimits };
  reduceProduct: { input: MLTensorLimits; output: MLTensorLimits };
  reduceL2: { input: MLTensorLimits; output: MLTensorLimits };
  reduceLogSum: { input: MLTensorLimits; output: MLTensorLimits };
  reduceLogSumExp: { input: MLTensorLimits; output: MLTensorLimits };
  reduceMean: { input: MLTensorLimits; output: MLTensorLimits };
  reduceMax: { input: MLTensorLimits; output: MLTensorLimits };
  reduceMin: { input: MLTensorLimits; output: MLTensorLimits };
  resample2d: { input: MLTensorLimits; output: MLTensorLimits };
  scatterElements: { input: MLTensorLimits; indices: MLTensorLimits; updates: MLTensorLimits; output: MLTensorLimits };
  scatterND: { input: MLTensorLimits; indices: MLTensorLimits; updates: MLTensorLimits; output: MLTensorLimits };
  softmax: { input: MLTensorLimits; output: MLTensorLimits };
}
