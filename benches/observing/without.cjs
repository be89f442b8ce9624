'use strict';

// Takes the observing out of the package: nothing asks whether somebody subscribes. Preloaded by one side of the measurement.

const path = require('node:path');

const file = path.join(__dirname, '..', '..', 'lib', 'diagnostics.js');
const exported = { traced: (_name, _describe, work) => work(), batched() {}, failed() {}, lost() {} };
require.cache[file] = { id: file, filename: file, loaded: true, exports: exported, children: [], paths: [], parent: undefined, require };
