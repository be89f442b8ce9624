'use strict';

// A process that serves: it listens at once, is ready when all models are loaded, and ends when it is told to and all requests are answered.

const fs = require('node:fs');
const os = require('node:os');
const timers = require('node:timers/promises');
const pino = require('pino');
const { listenGrpc } = require('./grpc/index.js');

/** Of the memory that a container may use, so much is left to JavaScript and the bodies of requests. */
const SHARE = 0.8;

/**
 * @param {import('../index.js').ServeOptions & { host?: string, port?: number, grpcPort?: number, grace?: number, drainDelay?: number, logLevel?: string, tlsCert?: string, tlsKey?: string }} options
 * @returns {Promise<number>} the exit code, when the process has been told to end
 */
async function serve({ host = '127.0.0.1', port = 8000, grpcPort, grace = 25_000, drainDelay = 0, logLevel = 'info', tlsCert, tlsKey, ...options }) {
  const { createServer } = require('./index.js');
  // Whoever reads the log may be gone: the server goes on, and ends when it is told to.
  process.stdout.on('error', () => {});
  const log = pino({ level: logLevel, name: 'webnn-node' }, process.stdout);
  const tls = tlsCert === undefined ? undefined : { cert: fs.readFileSync(tlsCert), key: fs.readFileSync(tlsKey) };
  const server = await createServer({ memoryLimit: memoryLimit(), ...options, logger: log, https: tls, waits: false });
  const ended = whenEnded(server, log, { grace, drainDelay });
  try {
    await server.listen({ host, port, listenTextResolver: (address) => `listening on ${address}` });
    if (grpcPort !== undefined) await listenGrpc(server, { host, port: grpcPort, token: options.token, tls });
    // Whoever ends it while it loads does not wait for the models.
    const first = await Promise.race([server.loaded.then(() => undefined), ended]);
    if (first !== undefined) return first;
    log.info({ models: server.registry.all().map(({ name, version }) => `${name}/${version}`) }, 'ready');
    return await ended;
  } catch (error) {
    // What is loading when the process is told to end fails.
    if (server.load.isLeaving) return ended;
    log.error({ err: error }, 'the server cannot start');
    await server.close();
    return 1;
  }
}

/** Resolves with the exit code when a signal has come and all requests are answered. */
function whenEnded(server, log, { grace, drainDelay }) {
  return new Promise((resolve) => {
    let isEnding = false;
    const end = async (signal) => {
      if (isEnding) return;
      isEnding = true;
      if (drainDelay > 0) {
        log.info({ signal, ms: drainDelay }, 'not ready any more');
        server.load.leave();
        await timers.setTimeout(drainDelay);
      }
      log.info({ signal, running: server.load.running }, 'draining');
      const timer = setTimeout(() => {
        log.error({ running: server.load.running }, 'requests did not end in time');
        resolve(1);
      }, grace);
      // Who sends slowly does not hold up the end.
      const cut = setTimeout(() => server.receiving.cut(), grace / 2);
      await server.load.drain();
      await server.close();
      clearTimeout(timer);
      clearTimeout(cut);
      log.info('ended');
      resolve(0);
    };
    for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => void end(signal));
  });
}

/** What models may use if the process may not use all of the machine's memory. */
function memoryLimit() {
  const limit = process.constrainedMemory?.() ?? 0;
  return limit > 0 && limit < os.totalmem() ? Math.floor(limit * SHARE) : undefined;
}

module.exports = { serve };
