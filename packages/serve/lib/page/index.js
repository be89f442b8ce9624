'use strict';

// The page at `/`: the models, a form to try them, and what the server does now. It is three files, and asks nobody else for anything.

const fs = require('node:fs');
const path = require('node:path');

const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";
const FILES = { '/': ['index.html', 'text/html; charset=utf-8'], '/page/main.js': ['main.js', 'text/javascript; charset=utf-8'], '/page/style.css': ['style.css', 'text/css; charset=utf-8'] };

/**
 * @param {import('fastify').FastifyInstance} fastify
 * @param {{ registry: import('../models.js').Registry, metrics: import('../metrics.js').Metrics, load: import('../load.js').Load, context: any, isReady: () => boolean }} setting
 */
async function page(fastify, { registry, metrics, load, context, isReady }) {
  for (const [url, [name, type]] of Object.entries(FILES)) {
    const text = fs.readFileSync(path.join(__dirname, 'files', name));
    fastify.get(url, async (_request, reply) => {
      reply.headers({ 'content-type': type, 'content-security-policy': POLICY, 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' });
      return text;
    });
  }
  fastify.get('/page/state', async () => ({
    ready: isReady(),
    running: load.running,
    limit: load.maxInFlight,
    memory: context.memoryUsage(),
    process: process.memoryUsage().rss,
    models: registry.all().map(({ name, version, hub, onnx }) => {
      const { success, fail, infer, queue, pending, executions } = metrics.statistics.of(name, version);
      return { name, version, kind: hub?.text?.kind ?? 'tensors', memory: onnx?.memoryUsage().graphs, success, fail, infer, queue, pending, executions };
    }),
  }));
}

/** Answered without the token: the page itself asks for one. */
const isPage = (url) => Object.hasOwn(FILES, url ?? '');

module.exports = { isPage, page };
