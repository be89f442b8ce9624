'use strict';

// Whether packages/constrain is built, which takes Rust.

const fs = require('node:fs');
const path = require('node:path');

const folder = path.join(__dirname, '..', '..', 'packages', 'constrain', 'native');
const isBuilt = fs.existsSync(folder) && fs.readdirSync(folder).length > 0;
if (!isBuilt) console.log('packages/constrain is not built, which takes Rust: constrained output is not tested');

module.exports = { describeBuilt: isBuilt ? describe : describe.skip, isBuilt };
