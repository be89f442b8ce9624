'use strict';

// The version of this JavaScript: package.json's, as a module that every bundler reads.

module.exports = '0.2.0';
