// Makes a fresh clone ready with nothing but Node, npm, and Rust or a published package. Every npm script starts here.
import { readFileSync } from 'node:fs';
import { buildAddon, buildConstrain } from './addon.mjs';
import { installPackages } from './install.mjs';
import { takePrebuilt } from './prebuilt.mjs';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';
import { stop } from './stop.mjs';

/**
 * Without Rust the addon is that of a package of this version, where there is one.
 *
 * @param {{ addon?: boolean }} [options] `addon: false` leaves the native part alone.
 * @returns {Promise<{ rust: boolean }>}
 */
export async function setUp({ addon = true } = {}) {
  checkNode();
  await installPackages();
  const rust = !('error' in (await run('cargo', ['--version'], { limitSeconds: 60, stdout: 'keep', stderr: 'keep' })));
  if (addon && rust) {
    await buildAddon();
    await buildConstrain();
  } else if (addon) await takePrebuilt();
  return { rust };
}

function checkNode() {
  const { engines } = JSON.parse(readFileSync(inRepository('package.json'), 'utf8'));
  const lowest = Number(/\d+/.exec(engines.node)[0]);
  if (parseInt(process.versions.node, 10) < lowest) {
    stop(`Node.js ${lowest} or later is needed, and this is ${process.versions.node}`);
  }
}
