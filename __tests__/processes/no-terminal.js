'use strict';

process.stderr.isTTY = false;
