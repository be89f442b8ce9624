'use strict';

// Short runs are computed on the JavaScript thread while their context is idle. What can be seen of that is the same for all of them, for
// none, and as it is by default.

const { execFile } = require('node:child_process');
const path = require('node:path');
const { promisify } = require('node:util');

const more = [2, 3, 4];
const less = [1, -2, -3, 1, -2, -3];
const EXPECTED = {
  programs: true,
  turns: true,
  cut: [more, less, more, less, more, less, more, less, [6, 3, 4]],
  rejected: ['enough', 'InvalidStateError'],
};

test.each(['always', 'never', ''])('WEBNN_INLINE=%s', async (variable) => {
  const env = { ...process.env, WEBNN_INLINE: variable };
  const { stdout } = await promisify(execFile)(process.execPath, [path.join(__dirname, 'inline', 'program.js')], { env, timeout: 50_000 });
  // On the thread of the timeline one may be ready while the one before is settled, in the same turn.
  expect(JSON.parse(stdout)).toEqual(variable === 'never' ? { ...EXPECTED, turns: expect.any(Boolean) } : EXPECTED);
});
