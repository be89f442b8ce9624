#!/usr/bin/env node
'use strict';

require('../lib/supported.js');
const { main } = require('../lib/command-line/main.js');

main(process.argv.slice(2));
