// @ts-check
'use strict';

const { parseArgs } = require('node:util');
const { PictureError } = require('./picture-error');

const HELP = `Recognises handwritten digits with a small convolutional network, run by WebNN.

Usage:
  npm start                  classify the test images in this folder and measure
  npm start -- PICTURE       classify a digit in your own PNG or JPEG file
  npm start -- --help        show this text

Sample pictures are in examples/digits/pictures.`;

/**
 * Thrown for a wrong command line.
 */
class UsageError extends Error {}

/**
 * @param {string[]} args
 */
function readCommandLine(args) {
  try {
    const { values, positionals } = parseArgs({
      args,
      options: { help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    });
    if (positionals.length > 1) throw new Error('one picture at a time, please');
    return { help: values.help, file: positionals[0] };
  } catch (error) {
    throw new UsageError(`${/** @type {Error} */ (error).message.split('. ')[0]} (see npm start -- --help)`);
  }
}

/**
 * @param {string[]} args
 */
async function main(args) {
  const { help, file } = readCommandLine(args);
  if (help) {
    console.log(HELP);
  } else if (file === undefined) {
    // Loaded only when needed, so that --help works before the addon is built.
    const { runTestImages } = require('./run-test-images');
    await runTestImages();
  } else {
    const { classifyPicture } = require('./classify-picture');
    await classifyPicture(file);
  }
}

main(process.argv.slice(2)).catch((error) => {
  const expected = error instanceof PictureError || error instanceof UsageError;
  console.error(expected ? error.message : error);
  process.exitCode = 1;
});
