'use strict';

// A4: which exception, and a message that says which operator (and its label), which argument, what was found and what
// is allowed. Each case is a call that fails.

const { ml, MLGraphBuilder } = require('..');
const { buildAdder, createTensors, float32, useContext } = require('./adder.js');

const held = useContext();

/** What the calls below work with; made anew for each. */
async function scene() {
  const { context } = held;
  const builder = new MLGraphBuilder(context);
  const other = new MLGraphBuilder(context);
  const [a, b, c] = await createTensors(context, 3);
  const plain = await context.createTensor(float32(2));
  const gone = await context.createTensor({ ...float32(2), readable: true, writable: true, label: 'gone' });
  gone.destroy();
  const lost = await ml.createContext();
  const [stranded] = await createTensors(lost, 1);
  const strandedGraph = await buildAdder(lost);
  const elsewhere = await ml.createContext();
  const [foreign] = await createTensors(elsewhere, 1);
  const foreignGraph = await buildAdder(elsewhere);
  lost.destroy();
  const graph = await buildAdder(context);
  const goneGraph = await buildAdder(context);
  goneGraph.destroy();
  const x = builder.input('x', float32(2, 2));
  return {
    ...{ context, builder, a, b, c, plain, gone, lost, stranded, strandedGraph, foreign, foreignGraph, graph, goneGraph, x },
    strangerOperand: other.input('x', float32(2, 2)),
    constant: await context.createConstantTensor(float32(2), new Float32Array(2)),
    data: new Float32Array(2),
    elsewhere,
  };
}

const TypeErrors = {
  'too few arguments': [({ builder, x }) => builder.add(x), 'add: found 1 argument, required are 2'],
  'no argument': [({ builder }) => builder.relu(), 'relu: found 0 arguments, required is 1'],
  'an argument of another kind': [({ builder, x }) => builder.add(x, 3), "add: b: found 3, allowed an MLOperand"],
  'a promise that nobody awaited': [
    ({ context }) => context.writeTensor(context.createTensor(float32(2)), new Float32Array(2)),
    "writeTensor: tensor: found a promise (await it first), allowed an MLTensor",
  ],
  'a tensor for an operand': [
    ({ builder, a }) => builder.relu(a),
    "relu: input: found an MLTensor, allowed an MLOperand",
  ],
  'the label of a call whose arguments are wrong': [
    ({ builder, x }) => builder.add(x, null, { label: 'first' }),
    "add [first]: b: found null, allowed an MLOperand",
  ],
  'a label that would deceive': [
    ({ builder, x, strangerOperand }) => builder.add(x, strangerOperand, { label: 'a\u202eb\n\u0007' }),
    "add [a\\u{202e}b\\u{a}\\u{7}]: b: found an MLOperand of another MLGraphBuilder, allowed one of this one",
  ],
  'a value that would deceive': [
    ({ builder }) => builder.input('x', { dataType: 'f\u2066loat', shape: [] }),
    "input: descriptor: dataType: found 'f\\u{2066}loat', allowed 'float32', 'float16', 'int32', 'uint32', 'int64', 'uint64', 'int8', 'uint8', 'int4' or 'uint4'",
  ],
  'a member of the options': [
    ({ builder, x }) => builder.conv2d(x, x, { padding: [1, 1, -1, 1], label: 'c' }),
    "conv2d [c]: padding: element 2: found -1, allowed an integer from 0 to 4294967295",
  ],
  'an enumeration in the options': [
    ({ builder, x }) => builder.conv2d(x, x, { inputLayout: 'NCHW' }),
    "conv2d: inputLayout: found 'NCHW', allowed 'nchw' or 'nhwc'",
  ],
  'a foreign operand in the options': [
    ({ builder, x, strangerOperand }) => builder.conv2d(x, x, { bias: strangerOperand, label: 'c' }),
    "conv2d [c]: bias: found an MLOperand of another MLGraphBuilder, allowed one of this one",
  ],
  'a foreign operand in a sequence': [
    ({ builder, x, strangerOperand }) => builder.concat([x, strangerOperand], 0),
    "concat: inputs: element 1: found an MLOperand of another MLGraphBuilder, allowed one of this one",
  ],
  'no operand in a sequence': [
    ({ builder, x }) => builder.concat([x, {}], 0),
    "concat: inputs: element 1: found an object, allowed an MLOperand",
  ],
  'no sequence': [
    ({ builder, x }) => builder.reshape(x, 4),
    "reshape: newShape: found 4, allowed a sequence, such as an array",
  ],
  'a receiver': [
    ({ context, builder, x }) => builder.add.call(context, x, x),
    "MLGraphBuilder.add: 'this': found an MLContext, allowed an MLGraphBuilder",
  ],
  'a missing member': [
    ({ context }) => context.createTensor({ shape: [1] }),
    "createTensor: descriptor: dataType: found undefined, allowed a value: the member is required",
  ],
  'a dimension': [({ context }) => context.createTensor({ ...float32(2, 0), label: 't' }), /^createTensor \[t\]: .*found a dimension of 0 in float32\[2, 0\], allowed 1 to 2147483647/],
  'options that are none': [({ builder, x }) => builder.relu(x, 5), "relu: options: found 5, allowed an object"],
  'shapes of an operator': [
    ({ builder, x }) => builder.add(x, builder.input('y', float32(3)), { label: 'sum' }),
    /^add \[sum\]: .*found .*\[2, 2\] and \[3\], allowed/,
  ],
  'the length of a buffer': [
    ({ builder }) => builder.constant(float32(3), new Float32Array(2)),
    "constant: buffer: found 8 bytes, allowed the 12 bytes of float32[3]",
  ],
  'the type of a buffer': [
    ({ context, a }) => context.writeTensor(a, new Int32Array(2), { label: 'w' }),
    "writeTensor [w]: inputData: found an Int32Array, allowed for float32[2] Float32Array, Uint8Array, an ArrayBuffer, a SharedArrayBuffer or a DataView",
  ],
  'no buffer': [
    ({ context, a }) => context.writeTensor(a, [1, 2]),
    "writeTensor: inputData: found an array, allowed an ArrayBuffer, a SharedArrayBuffer, a typed array or a DataView",
  ],
  'a tensor that is not writable': [
    ({ context, plain, data }) => context.writeTensor(plain, data),
    "writeTensor: tensor: found an MLTensor that is not writable, allowed one created with {writable: true}",
  ],
  'a tensor that is not readable': [
    ({ context, plain }) => context.readTensor(plain),
    "readTensor: tensor: found an MLTensor that is not readable, allowed one created with {readable: true}",
  ],
  'a tensor of another context': [
    ({ context, foreign, data }) => context.writeTensor(foreign, data),
    "writeTensor: tensor: found an MLTensor of another MLContext, allowed one that was created by this one",
  ],
  'a destroyed tensor': [
    ({ context, gone }) => context.readTensor(gone),
    "readTensor [gone]: tensor: found an MLTensor that was destroyed or whose MLContext was lost, allowed one that still exists",
  ],
  'a graph of another context': [
    ({ context, foreignGraph }) => context.dispatch(foreignGraph, {}, {}),
    "dispatch: graph: found an MLGraph of another MLContext, allowed one that was built for this one",
  ],
  'a tensor twice': [
    ({ context, graph, a, c }) => context.dispatch(graph, { a, b: a }, { c }, { label: 'd' }),
    "dispatch [d]: inputs: 'b': found an MLTensor that already stands for another name, allowed a different MLTensor for each name",
  ],
  'a tensor as input and output': [
    ({ context, graph, a, b }) => context.dispatch(graph, { a, b }, { c: a }),
    "dispatch: outputs: 'c': found an MLTensor that already stands for another name, allowed a different MLTensor for each name",
  ],
  'a name too few': [
    ({ context, graph, a, c }) => context.dispatch(graph, { a }, { c }),
    "dispatch: inputs: found 'a', allowed exactly the graph's 'a', 'b'",
  ],
  'an unknown name': [
    ({ context, graph, a, b, c }) => context.dispatch(graph, { a, z: b }, { c }),
    "dispatch: inputs: found the name 'z', allowed the graph's 'a', 'b'",
  ],
  'a constant tensor for an input': [
    ({ context, graph, a, c, constant }) => context.dispatch(graph, { a, b: constant }, { c }),
    "dispatch: inputs: 'b': found a constant MLTensor, allowed one made by createTensor()",
  ],
  'a tensor that is no constant': [
    ({ builder, a }) => builder.constant(a),
    "constant: tensor: found an MLTensor that is not constant, allowed one made by createConstantTensor()",
  ],
  'no output': [({ builder }) => builder.build({}, { label: 'g' }), "build [g]: outputs: found no name, allowed at least one"],
  'an output without a name': [
    ({ builder, x }) => builder.build({ '': builder.relu(x) }),
    "build: outputs: '': found an empty name, allowed any other",
  ],
  'an input as output': [({ builder, x }) => builder.build({ y: x }), /^build: .*found an input as "?'?y/],
  'an input without a name': [({ builder }) => builder.input('', float32(1)), /^input: .*found an empty name, allowed/],
  'an input twice': [({ builder }) => builder.input('x', float32(1)), /^input \[x\]: .*found the name of another input, allowed/],
};

const InvalidStateErrors = {
  'a destroyed graph': [
    ({ context, goneGraph }) => context.dispatch(goneGraph, {}, {}),
    "dispatch: graph: found an MLGraph that was destroyed or whose MLContext was lost, allowed one that still exists",
  ],
  'a graph of a lost context': [
    ({ lost, strandedGraph }) => lost.dispatch(strandedGraph, {}, {}, { label: 'd' }),
    "dispatch [d]: graph: found an MLGraph that was destroyed or whose MLContext was lost, allowed one that still exists",
  ],
  'a builder for a lost context': [
    ({ lost }) => new MLGraphBuilder(lost),
    "MLGraphBuilder: context: the MLContext was destroyed or lost",
  ],
  'a tensor from a lost context': [
    ({ lost }) => lost.createTensor({ ...float32(2), label: 't' }),
    'createTensor [t]: the MLContext was destroyed or lost',
  ],
};

const cases = Object.entries({ TypeError: TypeErrors, InvalidStateError: InvalidStateErrors }).flatMap(([exception, calls]) =>
  Object.entries(calls).map(([what, [call, message]]) => ({ exception, what, call, message })),
);

/** What returns a promise rejects; what does not, throws. */
const PROMISES = /^(createTensor|createConstantTensor|readTensor|createContext|build)\b/;

describe('A4: messages', () => {
  let here;
  beforeEach(async () => {
    here = await scene();
  });
  afterEach(() => here.elsewhere.destroy());

  test.each(cases)('$exception: $what', async ({ exception, call, message }) => {
    let error, threw;
    try {
      const result = call(here);
      threw = false;
      await result;
    } catch (caught) {
      error = caught;
      threw ??= true;
    }
    expect(error?.name).toBe(exception);
    expect(error).toBeInstanceOf(exception === 'TypeError' ? TypeError : DOMException);
    if (typeof message === 'string') expect(error.message).toBe(message);
    else expect(error.message).toMatch(message);
    expect(threw).toBe(!PROMISES.test(error.message));
  });
});

describe('A4: the stack leads to the caller', () => {
  test('of what throws', () => {
    const builder = new MLGraphBuilder(held.context);
    function theCaller() {
      builder.add(1, 2);
    }
    expect(theCaller).toThrow(expect.objectContaining({ stack: expect.stringContaining('theCaller') }));
  });
});

describe('E1: labels', () => {
  const label = 'a\u202e\n\ud83d\ude00';

  test('are kept as they are', async () => {
    const context = await ml.createContext({ label });
    const tensor = await context.createTensor({ ...float32(2), label });
    const constant = await context.createConstantTensor({ ...float32(2), label }, new Float32Array(2));
    const graph = await buildAdder(context, float32(2), { label });
    for (const object of [context, tensor, constant, graph]) expect(object.label).toBe(label);
    context.destroy();
  });

  test('are USVStrings, and empty where there is none', async () => {
    const context = await ml.createContext({ label: '\ud800' });
    expect(context.label).toBe('\ufffd');
    expect((await context.createTensor(float32(1))).label).toBe('');
    expect((await buildAdder(context)).label).toBe('');
    context.destroy();
  });
});
