/** @jest-environment node */
'use strict';

// The small suite in jest's environment for Node, and copies of the package, which jest makes for each file and on demand.

const vm = require('node:vm');
const { suite } = require('./environments/suite.js');

suite(require('..'), require('../lib/onnx.js'), { afterAll, beforeAll, describe, expect, test });

/** That of jest is a copy, without the listeners. */
const { process: nodes } = vm.runInThisContext('globalThis');

test('fifteen copies of the package with contexts of a GPU add no more than one listener to the process', async () => {
  const warnings = [];
  const note = (warning) => warnings.push(`${warning.name}: ${warning.message}`);
  nodes.on('warning', note);
  const before = nodes.listenerCount('exit');
  const contexts = [];
  for (let copy = 0; copy < 15; copy++) {
    jest.resetModules();
    const { ml, MLContext } = require('..');
    try {
      contexts.push(await ml.createContext({ deviceType: 'gpu' }));
    } catch (error) {
      console.info(`not tested: ${error.message}`);
      break;
    }
    expect(contexts.filter((context) => context instanceof MLContext)).toHaveLength(1);
  }
  // Warnings are told of in a turn of their own.
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  nodes.off('warning', note);
  for (const context of contexts) context.destroy();
  // That a GPU is software is told by one of the copies.
  const ofPackage = warnings.filter((text) => text.startsWith('WebNNWarning: the only GPU'));
  expect([warnings.length - ofPackage.length, ofPackage.length <= 1]).toEqual([0, true]);
  expect(nodes.listenerCount('exit') - before).toBeLessThanOrEqual(1);
});
