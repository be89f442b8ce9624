// @ts-check
'use strict';

const path = require('node:path');
const { ml } = require('../..');
const { readSafetensors } = require('./safetensors');

/**
 * Makes a WebNN context on the CPU and reads the trained weights.
 */
async function openContext() {
  const context = await ml.createContext({ accelerated: false });
  return { context, weights: readSafetensors(path.join(__dirname, 'weights.safetensors')) };
}

module.exports = { openContext };
