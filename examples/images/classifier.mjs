// Pictures → labels, with any network for image classification: FOLDER/onnx/model.onnx, config.json, preprocessor_config.json.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import sharp from 'sharp';
import { InferenceSession, Tensor } from 'webnn-node/onnxruntime';

/**
 * @param {string} folder
 * @param {{provider?: 'cpu' | 'webgpu'}} [options]
 */
export async function loadClassifier(folder, { provider = 'cpu' } = {}) {
  const read = (name) => JSON.parse(readFileSync(path.join(folder, name), 'utf8'));
  const { id2label } = read('config.json');
  const { size, crop_pct: part = 1, rescale_factor: scale = 1 / 255, image_mean: mean, image_std: deviation } = read('preprocessor_config.json');
  const session = await InferenceSession.create(path.join(folder, 'onnx', 'model.onnx'), { executionProviders: [provider] });
  const { height, width } = size;

  /** The middle of a picture as the network wants it: planes of red, green and blue. On sharp's threads, but for the last step. */
  async function load(file) {
    const [larger, wider] = [Math.round(height / part), Math.round(width / part)];
    const whole = sharp(file).autoOrient().resize(wider, larger, { fit: 'cover', kernel: 'cubic' });
    const middle = whole.extract({ left: (wider - width) >> 1, top: (larger - height) >> 1, width, height });
    const pixels = await middle.toColourspace('srgb').removeAlpha().raw().toBuffer();
    const count = height * width;
    const planes = new Float32Array(3 * count);
    for (let channel = 0; channel < 3; channel++) {
      const [factor, shift] = [scale / deviation[channel], mean[channel] / deviation[channel]];
      for (let i = 0; i < count; i++) planes[channel * count + i] = pixels[3 * i + channel] * factor - shift;
    }
    return planes;
  }

  /** The likeliest labels of each picture. */
  async function classify(pictures, most = 3) {
    const data = new Float32Array(pictures.length * 3 * height * width);
    pictures.forEach((planes, i) => data.set(planes, i * planes.length));
    const input = new Tensor('float32', data, [pictures.length, 3, height, width]);
    const { [session.outputNames[0]]: logits } = await session.run({ [session.inputNames[0]]: input });
    const classes = logits.dims[1];
    return pictures.map((_, i) => best(logits.data.subarray(i * classes, (i + 1) * classes), most).map(([id, score]) => ({ label: id2label[id], score })));
  }

  return { load, classify, dispose: () => session.release() };
}

/** The greatest of a softmax, with their places. */
function best(logits, most) {
  const greatest = Math.max(...logits);
  const powers = Array.from(logits, (x) => Math.exp(x - greatest));
  const sum = powers.reduce((a, b) => a + b);
  return powers.map((power, i) => [i, power / sum]).sort(([, a], [, b]) => b - a).slice(0, most);
}
