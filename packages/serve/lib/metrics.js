'use strict';

// Metrics for Prometheus, under Triton's names where it has one.

const prometheus = require('prom-client');

class Metrics {
  constructor() {
    /** Add a metric of your own with `registers: [metrics.register]`. */
    this.register = new prometheus.Registry();
  }

  text() {
    return this.register.metrics();
  }
}

module.exports = { Metrics };
