// Makes a fresh clone ready with nothing but Node, npm and Rust. Every npm script starts here.
import { readFileSync } from 'node:fs';
import { buildAddon } from './addon.mjs';
import { installPackages } from './install.mjs';
import { inRepository } from './repository.mjs';
import { stop } from './stop.mjs';

/** @param {{ addon?: boolean }} [options] `addon: false` leaves the native part alone. */
export async function setUp({ addon = true } = {}) {
  checkNode();
  await installPackages();
  if (addon) await buildAddon();
}

function checkNode() {
  const { engines } = JSON.parse(readFileSync(inRepository('package.json'), 'utf8'));
  const lowest = Number(/\d+/.exec(engines.node)[0]);
  if (parseInt(process.versions.node, 10) < lowest) {
    stop(`Node.js ${lowest} or later is needed, and this is ${process.versions.node}`);
  }
}
