// A program as a user would write it. `npm test` checks it with `tsc --strict`; nothing runs it.
import {
  ml,
  MLAwaitedExecution,
  MLCommandBuffer,
  MLCommandEncoder,
  MLContext,
  MLExecution,
  MLGraph,
  MLGraphBuilder,
  MLOperand,
  MLTensor,
  type MLContextOptions,
  type MLFPMath,
  type MLOperandDataType,
  type MLOperandDescriptor,
  type MLTensorDescriptor,
} from 'webnn-node';

const options: MLContextOptions = {
  powerPreference: 'high-performance',
  accelerated: false,
  deviceType: 'cpu',
  numThreads: 2,
  fpMath: 'bf16',
  label: 'main',
  priority: 'normal',
  timeout: 1000,
  maxQueue: 64,
  performance: 'throughput',
  cache: true,
  idle: 1000,
};

export async function contexts(): Promise<string> {
  const context: MLContext = await ml.createContext(options);
  await ml.createContext();

  const accelerated: boolean = context.accelerated;
  const label: string = context.label;
  const fpMath: MLFPMath = context.fpMath;

  const limits = context.opSupportLimits();
  const types: readonly MLOperandDataType[] | undefined = limits.conv2d?.filter?.dataTypes;
  const layout: string | undefined = limits.preferredInputLayout;

  context.destroy();
  const info = await context.lost;
  return `${accelerated} ${fpMath} ${label} ${types} ${layout} ${info.message}`;
}

export async function saved(context: MLContext, builder: MLGraphBuilder, y: MLOperand): Promise<MLGraph> {
  await ml.createContext({ cache: 'folder', idle: false });
  // @ts-expect-error there is no time without end but false
  await ml.createContext({ idle: true });
  const graph: MLGraph = await builder.build({ y }, { cache: 'folder', label: 'saved' });
  const nothing: undefined = await context.saveGraph('key', graph);
  context.deleteGraph('other');
  const keys: string[] = await context.listGraphs();
  const loaded = await context.loadGraph(keys[0] ?? `${nothing}`);
  const type: MLOperandDataType | undefined = loaded.inputs.x?.dataType;
  const shape: readonly number[] = loaded.outputs.y?.shape ?? [];
  // @ts-expect-error they are frozen
  loaded.inputs.x = { dataType: 'float32', shape: [] };
  return shape.length === 0 || type === 'int8' ? graph : loaded;
}

export async function graph(context: MLContext): Promise<MLGraph> {
  const builder = new MLGraphBuilder(context);
  const descriptor: MLOperandDescriptor = { dataType: 'float32', shape: [1, 3, 8, 8] };
  const image: MLOperand = builder.input('image', descriptor);

  // Constants: from a buffer, from one number, from a constant tensor.
  const filter = builder.constant({ dataType: 'float32', shape: [4, 3, 3, 3] }, new Float32Array(108));
  const bias = builder.constant({ dataType: 'float32', shape: [4] }, new ArrayBuffer(16));
  const two = builder.constant('float32', 2);
  const big = builder.constant('int64', 2n);
  const tensor = await context.createConstantTensor({ dataType: 'float32', shape: [4] }, new Float32Array(4));
  const scale = builder.constant(tensor);

  const features = builder.conv2d(image, filter, {
    bias,
    padding: [1, 1, 1, 1],
    strides: [2, 2],
    inputLayout: 'nchw',
    filterLayout: 'oihw',
    label: 'first',
  });
  const normalized = builder.instanceNormalization(features, { scale, epsilon: 1e-5 });
  const clamped = builder.clamp(builder.mul(normalized, two), { minValue: 0, maxValue: 6 });
  const [left, right] = builder.split(clamped, 2, { axis: 1 });
  if (left === undefined || right === undefined) throw new Error('split gave fewer operands than asked for');
  const joined = builder.concat([left, right], 1);
  const pooled = builder.averagePool2d(joined, { windowDimensions: [2, 2], strides: [2, 2] });
  const flat = builder.reshape(pooled, [1, 16]);
  const resized = builder.resample2d(joined, { mode: 'linear', sizes: [8, 8], axes: [2, 3] });
  const sliced = builder.slice(resized, [0, 0, 0, 0], [1, 1, 8, 8], { strides: [1, 1, 2, 2] });
  const padded = builder.pad(sliced, [0, 0, 1, 1], [0, 0, 1, 1], { mode: 'constant', value: 0 });
  const probabilities = builder.softmax(flat, 1);
  const whole = builder.cast(builder.reduceMean(padded, { axes: [2, 3], keepDimensions: true }), 'int32');
  const equal = builder.equal(big, builder.constant('int64', 3));

  const shape: readonly number[] = whole.shape;
  const type: MLOperandDataType = whole.dataType;
  console.log(shape, type);

  return builder.build({ probabilities, whole, equal }, { label: 'net' });
}

export async function inference(context: MLContext, network: MLGraph): Promise<Float32Array> {
  const descriptor: MLTensorDescriptor = { dataType: 'float32', shape: [1, 3, 8, 8], writable: true, label: 'image' };
  const image: MLTensor = await context.createTensor(descriptor);
  const probabilities = await context.createTensor({ dataType: 'float32', shape: [1, 16], readable: true });

  context.writeTensor(image, new Float32Array(192));
  context.writeTensor(image, new DataView(new ArrayBuffer(768)));
  context.writeTensor(image, new SharedArrayBuffer(768));
  context.dispatch(network, { image }, { probabilities });
  const { signal } = new AbortController();
  context.dispatch(network, { image }, { probabilities }, { priority: 'high', timeout: 100, signal, label: 'urgent' });
  await context.ready();

  const bytes: ArrayBuffer = await context.readTensor(probabilities);
  const mine = new Float32Array(16);
  await context.readTensor(probabilities, mine);
  await context.readTensor(probabilities, mine, { priority: 'low' });
  const read: ArrayBuffer = await context.readTensor(probabilities, { signal });

  const facts: [MLOperandDataType, readonly number[], boolean, boolean, boolean, string] = [
    image.dataType,
    image.shape,
    image.readable,
    image.writable,
    image.constant,
    image.label,
  ];
  console.log(facts, read);

  image.destroy();
  probabilities.destroy();
  network.destroy();
  return new Float32Array(bytes);
}

export async function mistakes(context: MLContext, network: MLGraph, tensor: MLTensor): Promise<void> {
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', { dataType: 'float32', shape: [2] });

  // @ts-expect-error there is no such priority
  context.dispatch(network, { x: tensor }, { y: tensor }, { priority: 'urgent' });
  // @ts-expect-error a build is not urgent
  await builder.build({ x }, { priority: 'high' });
  // @ts-expect-error a builder belongs to a context
  new MLGraphBuilder();
  // @ts-expect-error there is no such data type
  builder.input('y', { dataType: 'float', shape: [2] });
  // @ts-expect-error a descriptor has a shape
  builder.input('y', { dataType: 'float32' });
  // @ts-expect-error the second operand is missing
  builder.add(x);
  // @ts-expect-error operands are objects, not numbers
  builder.add(x, 1);
  // @ts-expect-error there is no such layout
  builder.conv2d(x, x, { inputLayout: 'chwn' });
  // @ts-expect-error there is no such operator
  builder.convolve(x);
  // @ts-expect-error outputs are operands, by name
  await builder.build(x.shape);
  // @ts-expect-error a dispatch names its outputs
  context.dispatch(network, { x: tensor });
  // @ts-expect-error a graph is not a tensor
  context.writeTensor(network, new Float32Array(2));
  // @ts-expect-error an attribute is read-only
  tensor.readable = true;
  // @ts-expect-error there is no such preference
  await ml.createContext({ powerPreference: 'fast' });
}

export async function ways(context: MLContext, graph: MLGraph, x: MLTensor, y: MLTensor): Promise<number> {
  const { inputs, outputs } = await context.compute(graph, { x: new Float32Array(4) }, { y: new Float32Array(4) }, { label: 'first' });
  const sum: number = inputs.x[0]! + outputs.y[0]!;
  await new MLAwaitedExecution(context).compute(graph, inputs, outputs);
  if (context.executionModes.includes('immediate')) {
    context.computeSync(graph, inputs, outputs, { label: 'second' });
    new MLExecution(context).compute(graph, inputs, outputs);
    const bytes: ArrayBuffer = context.readTensorSync(y);
    return bytes.byteLength;
  }
  const encoder = new MLCommandEncoder(context);
  encoder.initializeGraph(graph);
  encoder.dispatch(graph, { x }, { y }, { label: 'recorded' });
  const commands: MLCommandBuffer = encoder.finish({ label: 'all' });
  context.submit([commands, commands]);
  return sum + commands.label.length;
}
