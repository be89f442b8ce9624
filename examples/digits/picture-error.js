// @ts-check
'use strict';

/** Something about the user's picture that its message explains in one line. */
class PictureError extends Error {}

module.exports = { PictureError };
