'use strict';

// Run by other runtimes (runtimes.test.js): prints why the package cannot be loaded.

try {
  require('../..');
  console.log('loaded');
} catch (error) {
  console.log(error.message);
}
