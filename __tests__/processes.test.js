'use strict';

// How processes and threads end, with real ones: docs/extensions.md A5, A6 and B4. Each has a hard limit, and one that hangs is
// killed and fails. The work that is interrupted takes minutes, on a GPU in software too: who waits for it does not make it.

const { execFile } = require('node:child_process');
const path = require('node:path');

const LIMIT = 45_000;

/**
 * @param {string} program in the folder beside this file
 * @returns {Promise<{code: number | null, signal: string | null, stdout: string, stderr: string}>}
 */
function run(program, ...args) {
  return start(process.execPath, [path.join(__dirname, 'processes', program), ...args]);
}

function start(command, args, environment = {}) {
  return new Promise((resolve) => {
    // A GPU in software is a warning, and more threads than cores are.
    const options = { timeout: LIMIT, killSignal: 'SIGKILL', env: { ...process.env, NODE_NO_WARNINGS: '1', ...environment } };
    const child = execFile(command, args, options, (_error, stdout, stderr) => {
      resolve({ code: child.exitCode, signal: child.signalCode, stdout: stdout.trim(), stderr: stderr.trim() });
    });
  });
}

describe('A6: a process ends by itself', () => {
  test('with live contexts, graphs and tensors when nothing is pending', async () => {
    expect(await run('idle.js')).toEqual({ code: 0, signal: null, stdout: 'idle', stderr: '' });
  });

  test('not before what is pending has settled', async () => {
    expect(await run('pending.js')).toEqual({ code: 0, signal: null, stdout: String(4 << 24), stderr: '' });
  });
});

describe('A5: a process ends at once in the middle of', () => {
  describe.each(['build', 'dispatch', 'kernel', 'read'])('a %s', (work) => {
    test('by process.exit()', async () => {
      expect(await run('interrupted.js', work, 'exit')).toEqual({ code: 3, signal: null, stdout: 'in the middle', stderr: '' });
    });

    test('by an uncaught exception', async () => {
      const ended = await run('interrupted.js', work, 'throw');
      expect(ended).toMatchObject({ code: 1, signal: null, stdout: 'in the middle' });
      expect(ended.stderr).toContain('thrown on purpose');
    });
  });
});

describe('A5: several threads at once', () => {
  const well = { code: 0, signal: null, stdout: 'all ended', stderr: '' };

  test('have contexts of their own and end by themselves with everything alive', async () => {
    expect(await run('workers.js', 'alive')).toEqual(well);
  });

  test.each(['loading', 'opening', 'dispatch', 'elements', 'build', 'read', 'runs'])('are terminated in the middle: %s', async (beginning) => {
    expect(await run('workers.js', beginning)).toEqual(well);
  });

  test('one is terminated in the middle of a long kernel', async () => {
    expect(await run('workers.js', 'kernel', '1')).toEqual(well);
  });

  test('call process.exit() in the middle of a dispatch', async () => {
    expect(await run('workers.js', 'exit')).toEqual(well);
  });
});

describe('A5: whatever a GPU is doing', () => {
  /** Where there is no GPU, not even one in software, that is said. */
  async function ended(end, ...environment) {
    const how = await start(process.execPath, [path.join(__dirname, 'processes', 'on-gpu.js'), end], Object.fromEntries(environment));
    const unavailable = how.stdout.startsWith('unavailable');
    if (unavailable) console.info(`not tested: ${how.stdout}`);
    return unavailable ? undefined : how;
  }

  const well = { code: 0, signal: null, stderr: '' };

  test.each([
    ['a process ends at once by process.exit()', 'exit', { code: 3, signal: null, stdout: 'under way', stderr: '' }],
    ['a process ends at once by an uncaught exception', 'throw', { code: 1, stdout: 'under way', stderr: expect.stringContaining('thrown on purpose') }],
    ['a process ends by itself when its context was destroyed', 'destroy', { ...well, stdout: 'under way, then InvalidStateError' }],
    ['a worker is terminated, and the process ends by itself', 'terminate', { ...well, stdout: 'under way, then terminated' }],
  ])('%s', async (_, end, expected) => {
    const how = await ended(end);
    if (how) expect(how).toMatchObject(expected);
  });

  test('a device that takes longer than it may is given up, and the process ends by itself', async () => {
    const how = await ended('timeout', ['WEBNN_GPU_TIMEOUT', '1']);
    if (!how) return;
    expect(how).toMatchObject(well);
    const message = 'the device was lost: a dispatch took longer than 1 s (WEBNN_GPU_TIMEOUT)';
    expect(JSON.parse(how.stdout)).toEqual({ message, reason: `InvalidStateError: readTensor: ${message}` });
  });
});

test('B4: the event loop goes on while a network runs', async () => {
  const { stdout, ...ended } = await run('event-loop.js');
  expect(ended).toEqual({ code: 0, signal: null, stderr: '' });
  const { over, turns, median, longest } = JSON.parse(stdout);
  // Recorded only: how late a timer is depends on what else the machine does.
  console.info(`timer of 1 ms while a network runs: median ${median.toFixed(2)} ms, longest ${longest.toFixed(2)} ms`);
  expect({ over, turns }).toEqual({ over: false, turns: 200 });
});

describe('C22: contexts share the threads of the process', () => {
  const onLinux = process.platform === 'linux' ? test : test.skip;
  const file = path.join(__dirname, 'processes', 'threads.js');

  onLinux.each(['contexts', 'workers'])('of eight %s', async (kind) => {
    const { stdout, ...ended } = await start(process.execPath, [file, kind, '8'], { WEBNN_NUM_THREADS: '3' });
    expect(ended).toEqual({ code: 0, signal: null, stderr: '' });
    const { run: runs, 'short run': short = 0, pool = 0, cpu = 0 } = JSON.parse(stdout);
    // Of a pool: two beside the leader of all three threads, and one where two runs divide them.
    expect(Math.max(runs, short, pool, cpu)).toBeLessThanOrEqual(3);
    expect(runs).toBeGreaterThanOrEqual(1);
  });

  onLinux('each run with all of them, or with one', async () => {
    const [latency, throughput] = await Promise.all(['latency', 'throughput'].map(async (performance) => {
      const { stdout } = await start(process.execPath, [file, 'contexts', '3', performance], { WEBNN_NUM_THREADS: '3' });
      return JSON.parse(stdout);
    }));
    // One pool of three, of which two are beside the leader.
    expect(latency.pool).toBe(2);
    expect(throughput.pool).toBeUndefined();
  });

  onLinux('and a single core needs no pool', async () => {
    const { stdout } = await start(process.execPath, [file, 'contexts', '3'], { WEBNN_NUM_THREADS: '1' });
    expect(JSON.parse(stdout)).toEqual({ run: 1, 'short run': 1 });
  });

  test.each(['0', 'many', '2.5'])('WEBNN_NUM_THREADS=%s is refused', async (found) => {
    const script = `require(${JSON.stringify(path.join(__dirname, '..'))}).ml.createContext({ deviceType: 'cpu' }).catch(({ name, message }) => console.log(name, message))`;
    const { stdout } = await start(process.execPath, ['-e', script], { WEBNN_NUM_THREADS: found });
    expect(stdout).toBe(`NotSupportedError createContext: WEBNN_NUM_THREADS: found '${found}', allowed a whole number from 1 to 4096`);
  });
});

// Only Linux limits what a process may reserve, rather than what it may touch.
const onLinux = process.platform === 'linux' ? test : test.skip;

onLinux('what does not fit into memory is refused, and what comes after works', async () => {
  const kibibytes = 6_000_000;
  const file = path.join(__dirname, 'processes', 'little-memory.js');
  const { stdout, ...ended } = await start('sh', ['-c', `ulimit -v ${kibibytes} && exec "$0" "$@"`, process.execPath, file]);
  expect(ended).toEqual({ code: 0, signal: null, stderr: '' });
  expect(JSON.parse(stdout)).toEqual({
    createTensor: expect.stringMatching(/^UnknownError: createTensor \[tensor \d+\]: cannot allocate 1073741824 bytes$/),
    afterTensors: 3,
    dispatch: expect.stringMatching(/^OperationError: readTensor: .*dispatch \[too much\]: cannot allocate \d+ bytes$/),
    afterDispatch: 3,
    readTensor: 'UnknownError: readTensor [to read]: cannot allocate 1073741824 bytes',
    afterRead: 3,
  });
});
