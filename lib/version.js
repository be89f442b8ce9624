'use strict';

// The version of this JavaScript: that of package.json, as a module that every bundler can read.

module.exports = '0.2.0';
