'use strict';

// The thread that tokenizes long texts: a list of texts in, their tokens out.

const { parentPort, workerData } = require('node:worker_threads');
const { TextTokenizer } = require('./tokenizer.js');

const { json, config } = workerData;
const tokenizer = new TextTokenizer(JSON.parse(json), config);

parentPort.on('message', (texts) => {
  try {
    parentPort.postMessage({ rows: texts.map((text) => tokenizer.encodeRow(text)) });
  } catch (error) {
    parentPort.postMessage({ error: error.message });
  }
});
