// webnn-node on wgpu. Which adapter it has stands on stderr (WEBNN_LOG).
import { createRequire } from 'node:module';
import { on } from './ours.mjs';

const { ml } = createRequire(import.meta.url)('../../../lib/index.js');

export async function open() {
  process.env.WEBNN_LOG ||= '1';
  const context = await ml.createContext({ deviceType: 'gpu', powerPreference: 'high-performance' });
  return { ...on(context), isSoftware: !context.accelerated };
}
