// What the pipelines are run on: a model of models.br, the pipeline's task, and the calls.

/** Numbers of a generator of its own (mulberry32), from 0 to 1: the same on every machine. */
export function generator(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** A picture of soft shapes, as { data, width, height }. */
export function picture(seed, width, height) {
  const random = generator(seed);
  const [a, b, c] = [random() * 0.3, random() * 0.3, random() * 6];
  const data = new Uint8ClampedArray(width * height * 3);
  for (let i = 0; i < data.length; i++) {
    const [channel, x, y] = [i % 3, Math.floor(i / 3) % width, Math.floor(i / 3 / width)];
    data[i] = 128 + 90 * Math.sin(a * x + b * y * (channel + 1) + c) + 20 * (random() - 0.5);
  }
  return { data, width, height };
}

/** Sound at 16 kHz: two tones and some noise. */
export function sound(seed, length) {
  const random = generator(seed);
  const [low, high] = [0.02 + random() * 0.05, 0.1 + random() * 0.4];
  return Float32Array.from({ length }, (_, i) => 0.4 * Math.sin(low * i) + 0.2 * Math.sin(high * i) + 0.05 * (random() - 0.5));
}

const ENGLISH = [
  'A dog runs on the street.',
  'the cat sees a bird in the tree, and the fish',
  'Anna lives in Paris; John works in a big city by the river.',
  'music',
];
const long = { max_new_tokens: 12 };

/** `inputs`: the arguments of each call of the pipeline. Every call has shapes of its own. */
export const CASES = {
  'feature-extraction': {
    model: 'minilm',
    inputs: [
      [ENGLISH[0], { pooling: 'mean', normalize: true }],
      [ENGLISH, { pooling: 'mean', normalize: true }],
      [ENGLISH.slice(2), { pooling: 'cls' }],
      [ENGLISH[3]],
    ],
  },
  'text-classification': { model: 'distilbert-sst2', inputs: [[ENGLISH[0]], [ENGLISH, { top_k: 2 }]] },
  'token-classification': { model: 'bert-ner', inputs: [[ENGLISH[2], { ignore_labels: [] }], [ENGLISH[0], { ignore_labels: [] }]] },
  'question-answering': {
    model: 'distilbert-qa',
    inputs: [
      ['where does Anna work?', ENGLISH[2]],
      ['who runs', ENGLISH[0], { top_k: 3 }],
    ],
  },
  'zero-shot-classification': { model: 'deberta-nli', inputs: [[ENGLISH[0], ['politics', 'sport', 'travel']], [ENGLISH[2], ['food', 'film'], { multi_label: true }]] },
  'fill-mask': { model: 'roberta-mlm', inputs: [['the dog [MASK] in the city'], ['[MASK] lives in Paris', { top_k: 3 }]] },
  summarization: { model: 'bart', inputs: [[ENGLISH[2], long], [ENGLISH[0], { ...long, min_new_tokens: 8 }]] },
  translation: { model: 'marian', inputs: [[ENGLISH[1], long], [ENGLISH[3], long]] },
  'text2text-generation': { model: 't5', inputs: [[ENGLISH[1], long], [ENGLISH[2], long]] },
  'text-generation': { model: 'gpt2', inputs: [['the big dog', long], [['a king and a queen', 'music'], { max_new_tokens: 6 }]] },
  'text-generation-llama': {
    task: 'text-generation',
    model: 'llama',
    inputs: [
      ['once the sun', long],
      ['one two three', { ...long, repetition_penalty: 1.3, no_repeat_ngram_size: 2 }],
    ],
  },
  'image-classification': { model: 'vit', inputs: [[picture(1, 40, 30)], [picture(2, 32, 32), { top_k: 3 }]] },
  'image-classification-resnet': { task: 'image-classification', model: 'resnet', inputs: [[picture(3, 60, 90), { top_k: 6 }], ...[4, 9, 10, 11, 12, 13, 14].map((seed) => [picture(seed, 48, 48)])] },
  'object-detection': {
    model: 'detr',
    inputs: [
      [picture(5, 64, 48), { threshold: 0.1 }],
      [picture(6, 40, 90), { threshold: 0.1, percentage: true }],
    ],
  },
  'object-detection-yolos': { task: 'object-detection', model: 'yolos', inputs: [[picture(7, 64, 48), { threshold: 0.1 }], [picture(8, 90, 50), { threshold: 0.1 }]] },
  'automatic-speech-recognition': {
    model: 'whisper',
    inputs: [
      [sound(1, 24000), { max_new_tokens: 10 }],
      [sound(2, 40000), { max_new_tokens: 8, return_timestamps: true, chunk_length_s: 2 }],
    ],
  },
  'automatic-speech-recognition-ctc': { task: 'automatic-speech-recognition', model: 'wav2vec2', inputs: [[sound(3, 8000)], [sound(4, 5000)]] },
};
