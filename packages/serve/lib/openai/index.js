'use strict';

// OpenAI's interface: /v1/….

/**
 * @param {import('fastify').FastifyInstance} fastify
 * @param {{ registry: import('../models.js').Registry, metrics: import('../metrics.js').Metrics }} _options
 */
async function openai(_fastify, _options) {}

module.exports = { openai };
