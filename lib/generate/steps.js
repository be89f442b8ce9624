'use strict';

// The operators of the steps of generate(), for a profile of the model and for the trace of the process.

const { performance } = require('node:perf_hooks');
const native = require('../native.js');
const { profileRun, stepsOf } = require('../onnx/profile.js');
const { trace } = require('../trace.js');

/**
 * What notes the operators of a step that begins now, if somebody wants them. Of what ran together with the sequences of other calls one of these
 * calls has all, and the others nothing.
 * @param {import('../onnx/model.js').Model} model
 * @returns {((session: number) => void) | undefined}
 */
function noteOf(model) {
  const { profile, label, contextState } = model;
  if (profile === undefined && trace === undefined) return undefined;
  const began = performance.now();
  const note = profile && profileRun(profile);
  return (session) => {
    const steps = native.takeSequenceSteps(session);
    if (steps.length === 0) return;
    note?.(steps);
    trace?.steps(label, began, stepsOf(steps), contextState.peak);
  };
}

module.exports = { noteOf };
