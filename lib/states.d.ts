// What the objects of script have in their private fields.

export interface ContextState {
  handle: number;
  /** What carries out its work. */
  order: InstanceType<typeof import('./order').Order>;
  /** The device of script's that it was made from. */
  gpuDevice: GPUDevice | undefined;
  /** Refers back, so that what refers to the state keeps the object, and thereby the native context, alive. */
  object: object;
  accelerated: boolean;
  /** Where its graphs run; a GPU may be one in software, which accelerates nothing. */
  device: 'cpu' | 'gpu';
  fpMath: 'strict' | 'bf16';
  label: string;
  lost: boolean;
  whenLost: Promise<{ message: string }>;
  resolveLost(info: { message: string }): void;
  limits: object | undefined;
  /** Those of runs that say nothing else (scheduling.js); in milliseconds. */
  priority: number;
  timeout: number | undefined;
  /** Where the number of runs is limited. */
  queue: InstanceType<typeof import('./queue').Queue> | undefined;
  /** What waits for a timer before it begins: is called when the context is lost. */
  delayed: Set<() => void>;
  /** What the CPU can do, where the process is traced. */
  peak: import('./onnx.d.ts').OnnxPeak | undefined;
  /** The folder that keeps its graphs, packed and saved; '' where it was not asked for. */
  cache: string;
  /** Its threads leave a core to script. */
  leavesCore: boolean;
  /** See `event-loop-polling.js`; times in milliseconds. Nothing where results do not come from the native side. */
  habits: undefined | {
    longest: number; usual: number; began: number; ended: number;
    quick: number; enough: number; missed: number; until: number; timer: NodeJS.Timeout | undefined;
  };
}

/** What a buffer for a tensor has to be. */
export interface BufferFor {
  byteLength: number;
  views: readonly string[];
  /** For messages: `float32[2,3]`. */
  text: string;
}

export interface TensorState {
  context: ContextState;
  /** What the context's timeline knows it by. */
  handle: any;
  dataType: number;
  shape: readonly number[];
  label: string;
  readable: boolean;
  writable: boolean;
  constant: boolean;
  buffer: BufferFor;
  destroyed: boolean;
  /** The pending reads, which destroy() rejects. */
  waiting: number;
  /** Refers back, so that what refers to the state keeps the object, and thereby the native tensor, alive. */
  object: object | undefined;
  /** How WebGPU may have it: see webgpu/sharing.js. */
  sharing: 'draft' | 'exportable' | 'importable' | undefined;
  /** The device that it was made for, if it was. */
  gpuDevice: GPUDevice | undefined;
  /** While WebGPU has it. */
  rental: { result: GPUBuffer | Promise<GPUBuffer> | undefined; giveBack(): void } | undefined;
}

export interface GraphState {
  context: ContextState;
  /** As of a tensor. */
  handle: any;
  label: string;
  destroyed: boolean;
  inputs: Map<string, Binding>;
  outputs: Map<string, Binding>;
  /** The attributes of the same names, once they were asked for. */
  described: { inputs: object | undefined; outputs: object | undefined };
  /** What saveGraph() can save: a native object. */
  kept: number | undefined;
  /** The pending computations, which destroy() rejects. */
  waiting: number;
  /** As of a tensor. */
  object: object | undefined;
}

/** An input or output of a graph: a tensor of that descriptor, or so much memory. */
export interface Binding extends BufferFor {
  position: number;
  dataType: number;
  shape: readonly number[];
}

export interface BuilderState {
  context: ContextState;
  handle: number;
  hasBuilt: boolean;
  destroyed: boolean;
}

/** A record, as two lists of the same length. */
export interface Named<T> {
  names: string[];
  values: T[];
}

/** Something that is pending. */
export interface Entry {
  /** For messages. */
  operator: string;
  label: string;
  /** Absent while it is the context that is being made. */
  context: ContextState | undefined;
  /** Of the context, where the entry has none. */
  peak?: import('./onnx.d.ts').OnnxPeak;
  /** What the native side reads or writes. */
  memory?: unknown;
  /** Whose destruction ends this. */
  object?: TensorState | GraphState;
  /** Its result may come within a moment: see `event-loop-polling.js`. */
  soon?: boolean;
  /** The caller gets its memory back with the promise, so that must wait for the native side. */
  lends?: boolean;
  /** What the promise will be rejected with when the native side is done with the memory. */
  refusal?: unknown;
  /** From the native value to the promise's. */
  arrive(value: any): unknown;
  /** Releases what script will never see, and gives back what it lent. */
  fail?(reason: unknown): void;
  resolve?(value: unknown): void;
  reject?(reason: unknown): void;
  /** The promise was rejected already. */
  over?: boolean;
  /** By its caller, so that `fail` is still to be called when the native side is done. */
  isAbandoned?: boolean;
  /** Called when the native side is done with it. */
  ended?(): void;
  /** Of lib/ itself: its promise is settled with what the native side says, as it is. */
  isOurs?: boolean;
}
