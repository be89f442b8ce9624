'use strict';

// Standard error is a terminal, for all that a program can see.

process.stderr.isTTY = true;
