#!/usr/bin/env node
'use strict';

const { main } = require('../lib/command-line/main.js');

main(process.argv.slice(2));
