// The native addon, as lib/ calls it: the contract with src/node/.
//
// Native objects are known by handles, integers that are never used again for another object; an operand by its number
// in its builder. Values have been converted by WebIDL. A function that fails throws an Error whose `code` is the name of
// the exception and whose `message` is complete. A function that takes a request finishes later: then `settle` is called.

/** A native object. What is stale names nothing. */
type Handle = number;
/** A number that lib/ chose: greater than what `initialize` returned, and never used twice. */
type Request = number;
/** The position in `dataTypes()`. */
type DataType = number;
/** Not a bare SharedArrayBuffer, which Node-API does not take. */
type Bytes = ArrayBuffer | ArrayBufferView;

export interface Cause {
  code: string;
  message: string;
  cause?: Cause;
  /** Of what script has given up: the number of its reason. */
  reason?: number;
  /** The reason itself, where `lib/` made this. */
  given?: { value: unknown };
}

export interface Kind {
  type:
    | 'operand' | 'operands' | 'unsigned' | 'signed' | 'unsignedList' | 'unsignedOrList' | 'boolean' | 'double' | 'floatList'
    | 'number' | 'enumeration' | 'enumerationList';
  /** Of numbers: [EnforceRange]; otherwise modulo 2^32. */
  enforceRange?: boolean;
  /** Of enumerations: the IDL's name, and the values, whose positions native functions take. */
  enumeration?: string;
  values?: string[];
}

export interface Member {
  name: string;
  kind: Kind;
}

/** A row of the operator table. */
export interface Operator {
  name: string;
  doc: string;
  section: string;
  dictionary: string;
  arguments: Member[];
  /** Those of the dictionary itself; `label` is common to all. */
  options: Member[];
  outputs: 'one' | 'sequence';
}

/** Name, data type, shape. */
export type NamedDescriptor = [string, DataType, number[]];

/** That of the package which the addon was built from. */
export function version(): string;
/**
 * A copy of lib/ introduces itself. `settle` gets `request, code, value` for everything that is ready: `code` is null where
 * it succeeded, otherwise the exception's name, and the value a Cause. The result is the number for events, whose value
 * is `{event: 'lost', context, message}`, or `{event: 'tasks', context}` when there is something for takeTasks(); requests count from there. While nothing is pending `settle` is held weakly. It gets
 * nothing where this round of the event loop has lasted long: then `settleRest` is to be called at its end.
 */
export function initialize(settle: (batch: any[] | undefined) => void): number;
/** Waits some microseconds until something is ready, and calls `settle` for it. */
export function settleSoon(): void;
/** Calls `settle` for some of what is ready. */
export function settleRest(): void;
/** Until `isReady()` is called nobody is woken for what becomes ready: no script is to run in between. */
export function holdSettling(): void;
/** Whether something is ready that was asked for since `holdSettling()`: then `settleRest` is to be called at the end of this round. */
export function isReady(): boolean;
export function operators(): Operator[];
export function dataTypes(): string[];

/** Functions that make one operand leave it here: its number, its data type, its rank, and the sizes. */
export const described: Uint32Array;

/**
 * `deviceType` is '' where script gave none; 0 threads are as many as the process may use, and a negative limit is none. `performance` is '', a name or
 * a number of streams. Settles with `{context, accelerated, device}`.
 */
export function createContext(
  request: Request, deviceType: string, powerPreference: string, accelerated: boolean, numThreads: number, label: string,
  fpMath: string, memoryLimit: number, performance: string,
): void;
/** How many cores the contexts of this process share. */
export function cores(): number;
export function opSupportLimits(context: Handle): any;
export interface MemoryUsage {
  tensors: number;
  graphs: number;
  packed: number;
  mapped: number;
  constants: number;
  sources: number;
  plans: number;
  shared: number;
  scratch: number;
  caches: number;
  pendingWrites: number;
  peak: number;
}
export function memoryUsage(context: Handle): MemoryUsage;
/** How long memory for runs stays where no run uses it; a negative number is no limit. */
export function keepIdleFor(context: Handle, milliseconds: number): void;
/** Ends what is pending. Limits and memory can still be asked for. */
export function destroyContext(context: Handle): void;
/** No GPU is used any more, by any thread of the process. */
export function leaveDevices(): void;
/** The context cannot be reached any more. */
export function forgetContext(context: Handle): void;
export function awaitContext(request: Request, context: Handle): void;

/** Fails where createTensor() would. */
export function checkTensor(context: Handle, dataType: DataType, shape: readonly number[], method: string, label: string): void;
/** The handle comes at once; settles when the memory is there. */
export function createTensor(
  request: Request, context: Handle, dataType: DataType, shape: readonly number[], readable: boolean, writable: boolean, label: string,
): Handle;
/** Copies the bytes before it returns. */
export function createConstantTensor(
  request: Request, context: Handle, dataType: DataType, shape: readonly number[], bytes: Bytes, label: string,
): Handle;
export function destroyTensor(tensor: Handle): void;
/** The handle of a tensor that the timeline has under this number. */
export function tensorOfNumber(context: Handle, dataType: DataType, shape: readonly number[], number: number): Handle;
/** Gives another tensor, of the same type and shape, what one has. */
export function shareTensor(tensor: Handle, to: Handle): void;
/** Copies the bytes before it returns. */
export function writeTensor(tensor: Handle, bytes: Bytes, label: string): void;
/** The buffer is the native side's until it has settled the request. */
export function readTensor(request: Request, tensor: Handle, buffer: ArrayBuffer, watch: Handle): void;

/** When the object has been collected the builder is as if it was destroyed. */
export function createBuilder(context: Handle, object: object): Handle;
export function destroyBuilder(builder: Handle): void;
export function input(builder: Handle, name: string, dataType: DataType, shape: readonly number[]): void;
export function constantBytes(builder: Handle, dataType: DataType, shape: readonly number[], bytes: Bytes): void;
export function constantNumber(builder: Handle, dataType: DataType, value: number | bigint): void;
export function constantTensor(builder: Handle, tensor: Handle): void;
/**
 * The values are those of the row, arguments and then options; `undefined` is absent. Several operands come back as
 * [number, data type, …sizes].
 */
export function apply(builder: Handle, operator: number, label: string, ...values: unknown[]): number[][] | undefined;
/** Ends the builder and gives the handle at once, unless it throws; settles with the graph's inputs and outputs. */
export function build(request: Request, builder: Handle, names: string[], operands: number[], label: string, watch: Handle): Handle;
export function destroyGraph(graph: Handle): void;
/** Tensors: the graph's inputs in its order, then its outputs. With a watch there is a request, which is settled when the dispatch has ended. */
export function dispatch(context: Handle, graph: Handle, tensors: Handle[], label: string, watch?: Handle, request?: Request): void;

/**
 * Runs a graph on the caller's memory, in place: views in the graph's order, undefined for an output that is not wanted. The
 * memory is the native side's until it has settled the request.
 */
export function compute(
  request: Request, context: Handle, graph: Handle, inputs: ArrayBufferView[], outputs: (ArrayBufferView | undefined)[], label: string,
  watch: Handle,
): void;
/** The same, but the inputs are copied before it returns, and stay script's. 0 is nobody's watch. */
export function run(
  request: Request, context: Handle, graph: Handle, inputs: ArrayBufferView[], outputs: ArrayBuffer[], label: string,
  watch: Handle,
): void;
/** How work is watched, with the times of its steps where these are wanted. A negative timeout is none. */
export function createWatch(withSteps: boolean, priority: number, timeout: number): Handle;
/** lib/ itself begins with the work, which is not overdue any more; whether it is still wanted. */
export function beginWork(watch: Handle): boolean;
/** Fails when the work is not wanted any more, or the watch is gone. */
export function awaitEnd(request: Request, watch: Handle): void;
/**
 * The work that has it ends as soon as it can, with an error; on a GPU if it has not begun. The number of the reason, then those of reasons that no
 * error has any more.
 */
export function giveUp(watch: Handle): number[];
/**
 * Operator, label, when it began and ended in nanoseconds since the watch was made, implementation, text, multiplications, bytes, data type,
 * thread, number of the graph, number in the graph, numbers there of the steps whose results it reads.
 */
export type Step = [string, string, number, number, string, string, number, number, string, string, number, number, number[]];
/** What profiles say of a step of a program: operator, label, implementation, text, multiplications, bytes, data type, sources. */
export type ProgramStep = [string, string, string, string, number, number, string, number[]];
/**
 * Steps of a graph that has run on a device of script's: as {@link Step}, but with the milliseconds since each began and ended, and without the number
 * of the graph.
 */
export function noteSteps(
  watch: Handle, steps: [string, string, number, number, string, string, number, number, string, string, number, number[]][],
): void;
/** The steps so far. */
export function takeSteps(watch: Handle): Step[];
export function destroyWatch(watch: Handle): void;
/** Blocks the thread until it is done, like the next. */
export function computeSync(
  context: Handle, graph: Handle, inputs: ArrayBufferView[], outputs: (ArrayBufferView | undefined)[], label: string,
): void;
export function readTensorSync(tensor: Handle, buffer: ArrayBuffer): void;

/**
 * For each dispatch a graph, the number of its tensors and a label, and the tensors of all of them one after the other. When V8 has
 * collected the object the commands may go.
 */
export function createCommandBuffer(
  context: Handle, graphs: Handle[], counts: number[], tensors: Handle[], labels: string[], object: object,
): Handle;
export function destroyCommandBuffer(buffer: Handle): void;
export function submit(context: Handle, buffers: Handle[]): void;

/**
 * A context on a GPUDevice of script's: it has limits, builders and constant tensors, and its graphs become programs. Whether the
 * device has 16-bit floating-point numbers and subgroups, and its limits (`LIMITS` in webgpu/device.js).
 */
export function createDeviceContext(events: number, halves: boolean, subgroups: boolean, limits: number[], memoryLimit: number): Handle;
/** As build(); settles with `{inputs, outputs, program}`, the latter as src/node/programs.rs describes it. */
export function buildProgram(request: Request, builder: Handle, names: string[], operands: number[], label: string, watch: Handle): Handle;
export function shaderText(program: Handle, shader: number): string;
export function programSteps(program: Handle): ProgramStep[];
/** Fills the view with a constant's bytes from an offset on. */
export function copyConstant(program: Handle, constant: number, offset: number, into: ArrayBufferView): void;
export function destroyProgram(program: Handle): void;
/** The bytes in use on such a device, which memoryUsage() adds to those of the native side. */
/** Throws if the context may not hold so much. */
export function setDeviceMemory(context: Handle, tensors: number, graphs: number, scratch: number): void;

/**
 * Some of what programs ask of such a device, each a list that begins with its kind (src/node/device_tasks.rs); nothing when there is nothing,
 * after which an event tells of more.
 */
export function takeTasks(context: Handle): [string, ...any[]][];
/** `[handle, number]` of a tensor of script's, for runOnnx() and for tasks. */
export function lendTensor(context: Handle, dataType: DataType, shape: readonly number[]): [Handle, number];
/** How a task ended: without a code where it succeeded; then with what was read. */
export function finishTask(context: Handle, task: number, code: string, message: string, buffers: (ArrayBuffer | undefined)[]): void;

/** What carries out a context's work: this addon, or what stands in its place. Whose handles they are only it knows. */
export interface Timeline {
  createTensor(
    request: Request, context: Handle, dataType: DataType, shape: readonly number[], readable: boolean, writable: boolean, label: string,
  ): any;
  createConstantTensor(request: Request, context: Handle, dataType: DataType, shape: readonly number[], bytes: Bytes, label: string): any;
  /** On a GPUDevice of script's. */
  adopt?(buffer: GPUBuffer, dataType: DataType, shape: readonly number[], label: string): any;
  destroyTensor(tensor: any): void;
  writeTensor(tensor: any, bytes: Bytes, label: string): void;
  shareTensor(tensor: any, to: any): void;
  tensorOfNumber(context: Handle, dataType: DataType, shape: readonly number[], number: number): any;
  readTensor(request: Request, tensor: any, buffer: ArrayBuffer, watch: Handle): void;
  build(request: Request, builder: Handle, names: string[], operands: number[], label: string, watch: Handle): any;
  planOnnx(request: Request, model: Handle, shapes: InputShape[], label: string, ahead: boolean, watch: Handle, long: InputShape[] | undefined, short: InputShape[] | undefined): any;
  /** As below, with graphs of its own. */
  runOnnx(...given: any[]): void;
  /** On a GPUDevice of script's: there is something for takeTasks(). */
  serveTasks?(): void;
  destroyGraph(graph: any): void;
  dispatch(context: Handle, graph: any, tensors: any[], label: string, watch?: Handle, request?: Request): void;
  compute(
    request: Request, context: Handle, graph: any, inputs: ArrayBufferView[], outputs: (ArrayBufferView | undefined)[], label: string,
    watch: Handle,
  ): void;
  createCommandBuffer(context: Handle, graphs: any[], counts: number[], tensors: any[], labels: string[], object: object): any;
  destroyCommandBuffer(buffer: any): void;
  submit(context: Handle, buffers: any[]): void;
  memoryUsage(context: Handle): MemoryUsage;
  destroyContext(context: Handle): void;
  forgetContext(context: Handle): void;
  awaitContext(request: Request, context: Handle): void;
}

/** Of a sequence those of its tensors, and undefined for an optional value without content. */
type InputShape = number[] | number[][] | undefined;
/**
 * Reads an ONNX model, with the given sizes for dimensions by their names, and external data by the names that the model has for its
 * files; a negative `maxBytes` is none, and an empty `fpMath` the context's. The
 * model's own bytes must have one of the digests after an algorithm, if there are any; those of external data follow their locations. `outline` asks for what importing alone tells of outputs that the file does not describe. Files are
 * mapped if `map` says so.
 */
export function openOnnx(
  request: Request, context: Handle, fileOrBytes: string | Bytes | Handle, names: string[], sizes: number[], label: string,
  constants: string[], arrays: string[], values: Bytes[], overridable: string[], maxBytes: number,
  locations: string[], external: (string | Bytes | Handle)[], outline: boolean, fpMath: string, digests: (string | Bytes)[],
  externalDigests: (string | (string | Bytes)[])[] | undefined,
  memoryLimit: number, cache: string, map: boolean, watch: Handle,
): Handle;
/** The bytes of its files that were read, and all of them; nothing if it is of no file that is read. */
export function onnxProgress(model: Handle): [read: number, length: number] | undefined;
/** Nothing more is made of the file. */
export function releaseOnnxFile(model: Handle): void;
export function onnxMemoryUsage(model: Handle): MemoryUsage;
/** Has all graphs of the process use the cache in a folder. */
export function useCache(folder: string): void;
export function cacheState(): { folder: string; hits: number; misses: number; damaged: number; written: number } | undefined;
/** What is packed for the builder's graph comes from the cache in a folder, and goes there. */
export function cacheBuild(builder: Handle, folder: string): void;
/** Keeps what a builder is about to build, unless its constants have more bytes than `most`; a negative number is no limit. */
export function keepGraph(builder: Handle, names: readonly string[], operands: readonly number[], label: string, most: number): Handle | undefined;
export function dropSavableGraph(kept: Handle): void;
export function saveGraph(request: Request, kept: Handle, folder: string, origin: string, key: string): void;
/** Makes a saved graph with a new builder: the arguments to build it, and what can be saved again. */
export function loadGraph(builder: Handle, folder: string, origin: string, key: string): [names: string[], operands: number[], label: string, kept: Handle] | undefined;
export function listGraphs(folder: string, origin: string): string[];
export function deleteGraph(folder: string, origin: string, key: string): void;
/** Those of any folder. */
export function savedGraphs(folder: string): [file: string, origin: string, key: string][];
/** Waits until all that is to be cached is written. */
export function finishCache(): void;
/** The names of files that are not as they were written. */
export function checkCache(folder: string): string[];
/** Bytes that will arrive piece by piece, about so many, for openOnnx(), which takes them; or dropReceived() does. */
export function receiveBytes(expected: number): Handle;
export function receivePiece(bytes: Handle, piece: Bytes): void;
export function dropReceived(bytes: Handle): void;
export function closeOnnx(model: Handle): void;
/** The graph for inputs of these shapes, or that of the first part; settles when it is built. On a device of script's it is a program. */
export function planOnnx(request: Request, model: Handle, shapes: InputShape[], label: string, ahead: boolean, watch: Handle, long: InputShape[] | undefined, short: InputShape[] | undefined): any;
/** Lets idle plans go: milliseconds until the next look or -1, and the numbers of script's plans that are to go. */
export function expirePlans(model: Handle): [next: number, ...leaving: number[]];
/** Counts a plan of script's, which keeps so many bytes; its number, and those of script's plans that are to go. */
export function keepPlan(model: Handle, bytes: number): number[];
/** Notes that it is used; the numbers of plans that are to go, if there are any. */
export function usePlan(model: Handle, plan: number): number[] | undefined;
/**
 * Whether runs with inputs of the shapes `one` can be run as one with inputs of the shapes `many`, which have several times as many rows. Settles
 * with { rows: [[output, axis]] }, where the axis is -1 for what all rows have in common, or { refused: [node, operator, reason] }.
 */
export function joinRows(request: Request, model: Handle, one: InputShape[], many: InputShape[]): void;
export function fitLengths(request: Request, model: Handle, long: number[][], shorter: number[][][]): void;
/**
 * Runs a model that is cut, or takes or gives sequences, from the plan of its first part. Settles with [name, value] for each output, where
 * a value is [dataType, shape, ArrayBuffer], a list of those, or undefined for no content; in place of the buffer of an output that is to be
 * kept stands a number for tensorOfNumber(). A negative seed or `maxBytes` is none.
 */
export function runOnnx(
  request: Request, model: Handle, graph: Handle, shapes: InputShape[],
  values: (ArrayBufferView | ArrayBufferView[] | Handle | undefined)[], kept: string[], label: string, seed: number, maxBytes: number, watch: Handle,
): void;

/** Whether inputs can be a step, that is, whether results of caches can be kept for the next run; undefined where nobody has found out. */
export function stepFits(model: Handle, shapes: number[][], values: (ArrayBufferView | Handle)[]): boolean | undefined;
/** The same, which is found out. */
export function prepareStep(request: Request, model: Handle, shapes: number[][], values: (ArrayBufferView | Handle)[]): void;
/** Settles with [[name, dataType, shape, type], ArrayBuffer] for each output; without a buffer it is taken with takeValue(). */
export function runStep(
  request: Request, model: Handle, shapes: number[][], values: (ArrayBufferView | Handle)[], wanted: string[] | undefined, label: string,
  watch: Handle,
): Handle;
export function takeValue(run: Handle, output: number): Handle;
export function forgetRun(run: Handle): void;
export function shareValue(value: Handle): Handle;
export function readValue(value: Handle): ArrayBuffer;
export function writeValue(value: Handle, view: ArrayBufferView, isPast: 0 | 1): void;
export function dropValue(value: Handle): void;

/**
 * Finds out what the inputs of a model that makes text mean; settles with the names of those that need a value. `embedder` is the model that embeds
 * tokens, or 0; `isInt8` keeps keys and values in 8 bits.
 */
export function openDecoder(request: Request, model: Handle, embedder: Handle | 0, isInt8: boolean): Handle;
export function closeDecoder(decoder: Handle): void;
type PrefixFigures = [bytes: number, sequences: number, hits: number, misses: number, reused: number];
/** With the figures of what calls keep by default. */
export function decoderFigures(
  decoder: Handle,
): [steps: number, runs: number, reason: string, guessed: number, accepted: number, speculationReason: string, ...PrefixFigures];
/** What calls keep for each other, of at most so many bytes, where at least so many tokens are known. */
export function createPrefixes(decoder: Handle, bytes: number, least: number): Handle;
/** Values of inputs that calls share. */
export function createAdapter(decoder: Handle, names: string[], shapes: number[][], arrays: ArrayBufferView[]): Handle;
export function destroyAdapter(adapter: Handle): void;
export function destroyPrefixes(prefixes: Handle): void;
export function pinPrefix(prefixes: Handle, ids: Uint32Array, isPinned: boolean): void;
export function prefixFigures(prefixes: Handle): PrefixFigures;
/** Writes what is kept into a file; keeps what is in one. Both settle with nothing. */
export function savePrefixes(request: Request, decoder: Handle, prefixes: Handle, file: string): void;
export function loadPrefixes(request: Request, decoder: Handle, prefixes: Handle, file: string): void;
/** The sequences of a call, which keeps what it sees in `prefixes`, or where it is kept by default. */
export function createSession(decoder: Handle, prefixes: Handle | 0): Handle;
/** The call has ended. */
export function destroySession(session: Handle): void;
/**
 * Settles with how many tokens of each prompt are remembered. The numbers are temperature, topK, topP, minP, and the penalties of
 * repetition, presence and frequency; a negative seed is none.
 */
export function beginSequences(
  request: Request, session: Handle, prompts: Uint32Array[], count: number, numbers: number[], biasIds: number[], biasNumbers: number[],
  seed: number, names: string[], shapes: number[][], arrays: (ArrayBufferView | undefined)[], adapter: Handle | 0,
  featureTokens: number[], features: ArrayBufferView[], grids: number[][],
): void;
/**
 * Settles with [sequence, id, logprob, …], or with [sequence, ArrayBuffer of logits, …] where no token is to be chosen. A mask has the bits of
 * the tokens that may be chosen for the sequence in its place; all may where there is none. Without `masks` the tokens wait for `giveMasks`.
 */
export function continueSequences(
  request: Request, session: Handle, sequences: number[], chooses: boolean, priority: number, timeout: number,
  masks: (Uint32Array | undefined)[] | undefined, withSteps: boolean,
): void;
/** The masks of a step that began without them. */
export function giveMasks(session: Handle, masks: (Uint32Array | undefined)[]): void;
/** Those of what was continued last. What was done for several sessions together is one's. */
export function takeSequenceSteps(session: Handle): Step[];
export function chooseToken(session: Handle, sequence: number, logits: Float32Array, mask: Uint32Array | undefined): [number, number];
/** Adds tokens after the one that was chosen. */
export function appendTokens(session: Handle, sequence: number, ids: Uint32Array): void;
/**
 * Has the sequences guess, which have at most so many tokens: by what was said before, or by the decoder `draft`; so many tokens each time, or
 * with 0 as many as are worth it.
 */
export function speculate(session: Handle, most: number, draft: Handle | 0, guesses: number): void;
/** Whether the last token was guessed, so that the next one needs no step. */
export function isGuessed(session: Handle, sequence: number): boolean;
/** The next token then. */
export function chooseGuessed(session: Handle, sequence: number, mask: Uint32Array | undefined): [number, number];
/** Or the logits that it is chosen by, once. */
export function guessedLogits(session: Handle, sequence: number): ArrayBuffer;
export function cancelSequences(session: Handle): void;
export function summarizeOnnx(request: Request, fileOrBytes: string | Bytes): void;
