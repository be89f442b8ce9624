// Ends a script with one line for people: what is wrong, and what to do about it.
export function stop(message) {
  console.error(`webnn-node: ${message}`);
  process.exit(1);
}
