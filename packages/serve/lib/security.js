'use strict';

// Who may call: whoever knows the token, if there is one.

const { createHash, timingSafeEqual } = require('node:crypto');
const { ServeError } = require('./errors.js');

const digest = (text) => createHash('sha256').update(text).digest();

/**
 * @param {string | undefined} token
 * @returns {(authorization: string | undefined) => void} throws if a request does not have the token
 */
function guard(token) {
  if (token === undefined || token === '') return () => {};
  const wanted = digest(token);
  return (authorization) => {
    const found = /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1];
    // Of digests, which are equally long: the time tells nothing of the token.
    if (found === undefined || !timingSafeEqual(digest(found), wanted)) throw new ServeError('unauthorized', 'a valid bearer token is needed');
  };
}

/**
 * Refuses what pages of other sites send: a browser sends it for them, also to a server on this machine.
 * @param {{ origin?: string, host?: string }} headers
 */
function requireOwnOrigin({ origin, host }) {
  if (origin === undefined) return;
  const from = URL.canParse(origin) ? new URL(origin).host : origin;
  if (from !== host) throw new ServeError('forbidden', 'pages of other sites may not call this server');
}

module.exports = { guard, requireOwnOrigin };
