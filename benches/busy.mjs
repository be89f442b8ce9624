// Other processes that take cores away, to see what engines do on a machine that is not theirs alone.
import { spawn } from 'node:child_process';

// Ends with the process that started it, however that ends.
const SPIN = `
  process.stdin.on('end', () => process.exit()).resume();
  const spin = () => {
    for (const end = Date.now() + 20; Date.now() < end; );
    setImmediate(spin);
  };
  spin();
`;

export function takeCores(count) {
  for (let i = 0; i < count; i++) spawn(process.execPath, ['-e', SPIN], { stdio: ['pipe', 'ignore', 'ignore'] }).unref();
}
