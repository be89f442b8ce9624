'use strict';

// For index.mjs, as `lib/entries.js` of webnn-node is: it imports this file, which does not fail.

module.exports = () => require('./index.js');
