// @ts-check
'use strict';

const path = require('node:path');
const { createClassifier, ranking } = require('./classifier');
const { CLASSES, PIXELS } = require('./network');
const { openContext } = require('./open-context');
const { readSafetensors } = require('./safetensors');
const { percent, sideBySide, textPicture } = require('./text-picture');

const SHOWN_DIGITS = [0, 2, 4, 5, 7, 8];
const SHOWN_MISTAKES = 2;
const PER_ROW = 4;
const WARM_UP_IMAGES = 50;
const WARM_UP_BATCHES = 3;
const TIMED_BATCHES = 20;

/**
 * Classifies the test images one by one and as one batch; prints some of them,
 * the accuracy and the speed.
 */
async function runTestImages() {
  const { images, labels } = readSafetensors(path.join(__dirname, 'test-images.safetensors'));
  const pixels = Uint8Array.from(images.data);
  const count = labels.data.length;
  const { context, weights } = await openContext();

  const single = await timeSingly(await createClassifier(context, weights, 1), pixels, count);
  const batch = await timeBatches(await createClassifier(context, weights, count), pixels);
  context.destroy();

  printExamples(pixels, labels.data, single.probabilities);
  const right = countRight(labels.data, single.probabilities);
  const rightInBatch = countRight(labels.data, batch.probabilities);
  console.log(`accuracy      ${percent(right / count)} (${right} of ${count} test images, none of them used in training)`);
  if (rightInBatch !== right) console.log(`              but ${rightInBatch} of ${count} when they run as one batch`);
  printSpeed('one by one', single.milliseconds / count);
  printSpeed(`batch of ${count}`, batch.milliseconds / (TIMED_BATCHES * count));
}

/**
 * @param {import('./classifier').Classify} classify for one image
 * @param {Uint8Array} pixels
 * @param {number} count
 */
async function timeSingly(classify, pixels, count) {
  /** @param {number} index */
  const image = (index) => pixels.subarray(index * PIXELS, (index + 1) * PIXELS);
  for (let index = 0; index < WARM_UP_IMAGES; index++) await classify(image(index));

  const probabilities = new Float32Array(count * CLASSES);
  const start = performance.now();
  for (let index = 0; index < count; index++) {
    probabilities.set(await classify(image(index)), index * CLASSES);
  }
  return { probabilities, milliseconds: performance.now() - start };
}

/**
 * @param {import('./classifier').Classify} classify for all images
 * @param {Uint8Array} pixels
 */
async function timeBatches(classify, pixels) {
  for (let run = 1; run < WARM_UP_BATCHES; run++) await classify(pixels);
  const probabilities = await classify(pixels);

  const start = performance.now();
  for (let run = 0; run < TIMED_BATCHES; run++) await classify(pixels);
  return { probabilities, milliseconds: performance.now() - start };
}

/**
 * @param {Float32Array | Uint8Array} labels
 * @param {Float32Array} probabilities
 */
function countRight(labels, probabilities) {
  return labels.filter((label, index) => ranking(probabilities, index)[0].digit === label).length;
}

/**
 * Prints a fixed choice of digits and the first mistakes, if there are any.
 *
 * @param {Uint8Array} pixels
 * @param {Float32Array | Uint8Array} labels
 * @param {Float32Array} probabilities
 */
function printExamples(pixels, labels, probabilities) {
  const best = Array.from(labels, (_, index) => ranking(probabilities, index)[0]);
  const indices = best.map((_, index) => index);
  const mistakes = indices.filter((index) => best[index].digit !== labels[index]);
  const examples = SHOWN_DIGITS.map((digit) =>
    indices.find((index) => labels[index] === digit && !mistakes.includes(index)),
  ).filter((index) => index !== undefined);
  const shownMistakes = mistakes.slice(0, SHOWN_MISTAKES);

  console.log(`${examples.length} test images that are classified right, ${mistakesShown(shownMistakes, mistakes)}:\n`);
  const blocks = [...examples, ...shownMistakes].map((index) => [
    ...textPicture(pixels.subarray(index * PIXELS, (index + 1) * PIXELS)),
    `${best[index].digit}  ${percent(best[index].probability)}`,
    best[index].digit === labels[index] ? 'right' : `WRONG: it is a ${labels[index]}`,
  ]);
  for (let start = 0; start < blocks.length; start += PER_ROW) {
    for (const line of sideBySide(blocks.slice(start, start + PER_ROW))) console.log(`  ${line}`);
    console.log('');
  }
}

/**
 * @param {number[]} shown
 * @param {number[]} all
 */
function mistakesShown(shown, all) {
  return all.length === 0 ? 'there are no mistakes' : `and ${shown.length} of the ${all.length} classified wrong`;
}

/**
 * @param {string} label
 * @param {number} milliseconds for one image
 */
function printSpeed(label, milliseconds) {
  const perSecond = Math.round(1000 / milliseconds).toLocaleString('en-US');
  console.log(`${label.padEnd(13)} ${milliseconds.toPrecision(3)} ms per image, ${perSecond} images per second`);
}

module.exports = { runTestImages };
