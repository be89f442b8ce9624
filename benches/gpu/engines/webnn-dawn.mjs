// webnn-node on a GPUDevice of Dawn.
import { createRequire } from 'node:module';
import { openDawn } from '../dawn.mjs';
import { on } from './ours.mjs';

const { ml } = createRequire(import.meta.url)('../../../lib/index.js');

export async function open() {
  const { device, name, isSoftware } = await openDawn();
  return { ...on(await ml.createContext(device)), name, isSoftware };
}
