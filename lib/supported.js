'use strict';

// The first file of every entry, in the syntax of old versions of Node.js: they cannot read the others.

const { node } = process.versions;
if (Number(node.split('.')[0]) < 20) {
  throw new Error('webnn-node: this is Node.js ' + node + ', and webnn-node needs Node.js 20 or later: install it from https://nodejs.org');
}
