// @ts-check
'use strict';

const { createClassifier, ranking } = require('./classifier');
const { openContext } = require('./open-context');
const { digitImage } = require('./picture');
const { PictureError } = require('./picture-error');
const { readPicture } = require('./picture-file');
const { percent, textPicture } = require('./text-picture');

/**
 * Prints what the network sees in a picture file and the three likeliest digits.
 *
 * @param {string} file
 */
async function classifyPicture(file) {
  const pixels = imageFromFile(file);
  const { context, weights } = await openContext();
  const classify = await createClassifier(context, weights, 1);
  const probabilities = await classify(pixels);
  context.destroy();

  console.log(`${file}, as the network sees it (8x8 pixels):\n`);
  for (const line of textPicture(pixels)) console.log(`  |${line}|`);
  console.log('');
  for (const { digit, probability } of ranking(probabilities).slice(0, 3)) {
    console.log(`  ${digit}  ${percent(probability).padStart(8)}`);
  }
}

/** @param {string} file */
function imageFromFile(file) {
  const picture = readPicture(file);
  try {
    return digitImage(picture);
  } catch (error) {
    if (error instanceof PictureError) throw new PictureError(`${error.message}: ${file}`);
    throw error;
  }
}

module.exports = { classifyPicture };
