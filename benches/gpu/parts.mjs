// What is measured, the most important first. `small` has the same parts in sizes for a device in software.

const float = (dims) => ({ type: 'float32', dims });
const ids = (dims, below) => ({ type: 'int64', dims, below });
const ones = (dims) => ({ type: 'int64', dims, value: 1 });
/** Numbers that are 1 or -1. */
const signs = (dims) => ({ type: 'float32', dims, signs: true });

const ENCODERS = {
  MiniLM: { layers: 6, width: 384, heads: 12, words: 30522 },
  'BERT-base': { layers: 12, width: 768, heads: 12, words: 30522 },
};
const GPT2 = { layers: 12, width: 768, heads: 12, words: 50257, past: 256 };
const DECODERS = {
  '135M': { layers: 30, width: 576, heads: 9, groups: 3, inside: 1536, words: 32000 },
  '0.5B': { layers: 24, width: 896, heads: 14, groups: 2, inside: 4864, words: 32000 },
};
const SMALL = {
  encoder: { layers: 1, width: 64, heads: 4, words: 64, length: 16 },
  gpt2: { layers: 1, width: 64, heads: 4, words: 64, past: 16 },
  decoder: { layers: 2, width: 128, heads: 4, groups: 2, inside: 256, words: 512 },
};

function networks(small) {
  const sides = small ? { resnet50: 64, mobilenetv2: 32 } : { resnet50: 224, mobilenetv2: 224 };
  const image = (name, network) => ({
    name, network, options: { type: 'float32', small }, inputs: { input: float([1, 3, sides[network], sides[network]]) },
  });
  const texts = (name, count) => {
    const options = { type: 'float32', texts: count, length: 128, ...(small ? SMALL.encoder : ENCODERS[name]) };
    const dims = [count, options.length];
    const inputs = { input_ids: ids(dims, options.words), attention_mask: ones(dims) };
    return { name: `${name}, ${count} ${count === 1 ? 'text' : 'texts'}`, network: 'encoder', options, inputs };
  };
  const gpt2 = small ? SMALL.gpt2 : GPT2;
  return [
    image('ResNet-50', 'resnet50'),
    texts('BERT-base', 1),
    { name: 'GPT-2, a step', network: 'gpt2Step', options: { type: 'float32', ...gpt2 }, inputs: { id: ids([1, 1], gpt2.words) } },
    texts('MiniLM', 1),
    image('MobileNetV2', 'mobilenetv2'),
    texts('MiniLM', 32),
    texts('BERT-base', 8),
    texts('MiniLM', 8),
    texts('BERT-base', 32),
  ];
}

/** Each is two models: a chain of some, and of one. */
function chained(name, network, options, long, inputs) {
  return { name, network, options: { ...options, chain: long }, shorter: { ...options, chain: 1 }, inputs, each: long - 1 };
}

function products(small) {
  const product = (type, size, long) => {
    const [edge, chain] = small ? [size / 32, 3] : [size, long];
    const inputs = { row: signs([1, edge]), column: signs([edge, 1]) };
    return { ...chained(`product of ${size}, ${type}`, 'products', { type, size: edge }, chain, inputs), type, exact: 'row' };
  };
  return [['float32', 4096, 9], ['float16', 4096, 9], ['float32', 1024, 65], ['float16', 1024, 65], ['float32', 8192, 3], ['float16', 8192, 3], ['float32', 2048, 33], ['float16', 2048, 33]]
    .map((one) => product(...one));
}

function convolutions(small) {
  const convolution = (name, options) => {
    const sized = small ? { ...options, image: 7, channels: 16, groups: options.groups && 16, batch: 1 } : options;
    const { batch = 1, channels, image } = sized;
    const inputs = { row: float([batch, channels, 1, image]), column: float([1, 1, image, 1]) };
    return chained(`convolution ${name}`, 'convolutions', { type: 'float32', ...sized }, small ? 3 : 17, inputs);
  };
  return [
    convolution('3x3, 64 channels of 56x56', { channels: 64, image: 56, size: 3 }),
    convolution('1x1, 256 channels of 56x56', { channels: 256, image: 56, size: 1 }),
    convolution('3x3, 256 channels of 14x14', { channels: 256, image: 14, size: 3 }),
    convolution('3x3, depthwise, 144 channels of 56x56', { channels: 144, image: 56, size: 3, groups: 144 }),
    convolution('3x3, 8 x 64 channels of 56x56', { channels: 64, image: 56, size: 3, batch: 8 }),
  ];
}

function text(small) {
  const parts = [['135M', 'q4'], ['0.5B', 'q4'], ['0.5B', 'float16'], ['135M', 'float16']];
  return parts.map(([size, weights]) => ({
    name: `${size}, ${weights}`,
    network: 'decoder',
    options: { weights, ...(small ? SMALL.decoder : DECODERS[size]) },
    prompts: small ? [8, 40] : [8, 512, 2048],
    tokens: small ? 4 : 32,
  }));
}

/** Groups of parts: an engine has a process for each, and of the time this share. */
export function groups(small) {
  return [
    { name: 'networks', share: 0.38, parts: networks(small) },
    { name: 'products', share: 0.2, parts: products(small) },
    { name: 'text', share: 0.3, parts: text(small) },
    { name: 'convolutions', share: 0.12, parts: convolutions(small) },
  ];
}

/** Options as a part of a file's name. What is undefined does not come through JSON. */
const named = (options) => Object.entries(options).filter(([, value]) => value !== undefined).map(([name, value]) => (typeof value === 'string' ? value : `${name}_${value}`)).join('-');

/** The models of a part: its files' names and what makes them. */
export function modelsOf({ network, options, shorter }) {
  return [options, shorter].filter(Boolean).map((one) => ({ network, options: one, file: `${network}-${named(one)}.onnx` }));
}
