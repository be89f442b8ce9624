// Says in words how a command ended badly; the empty string when it did not.
export function trouble({ code, signal, error, timedOut, silent }, limitSeconds) {
  if (silent) return `it printed nothing for ${limitSeconds} s and was killed with everything it had started`;
  if (timedOut) return `it did not end within ${limitSeconds} s and was killed with everything it had started`;
  if (error) return error.code === 'ENOENT' ? `${error.path} was not found` : error.message;
  if (signal) return `it was ended by ${signal}`;
  return code === 0 ? '' : `it ended with code ${code}`;
}
