'use strict';

// An environment for tests as jsdom's and happy-dom's are, in what matters to this package: a global object of its own,
// without some of Node's functions, and with an implementation of URL that is not Node's.

const { TestEnvironment } = require('jest-environment-node');

class OfABrowser extends TestEnvironment {
  async setup() {
    await super.setup();
    const { URL } = this.global;
    delete this.global.structuredClone;
    this.global.URL = class {
      #url;

      constructor(...given) {
        this.#url = new URL(...given);
      }

      get href() {
        return this.#url.href;
      }

      get [Symbol.toStringTag]() {
        return 'URL';
      }
    };
  }
}

module.exports = OfABrowser;
