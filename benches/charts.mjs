// Draws docs/images/speed.svg from the table of whole networks in RESULTS.md. `--check` only tells whether the file is up to date.

import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

const RESULTS = new URL('RESULTS.md', import.meta.url);
const CHART = new URL('../docs/images/speed.svg', import.meta.url);
const SECTION = '## 26 November 2026: quantized networks on a Zen 4';
const TABLE = '| model | 1 thread: ours |';
const CAPTION = 'Two cores of an AMD EPYC (Zen 4, AVX-512), one thread, medians; onnxruntime-node 1.30; 26 November 2026';

const NAMES = {
  resnet50: 'ResNet-50',
  conv3x3_64: '3 x 3 convolution, 64 channels',
  mobilenetv2: 'MobileNetV2',
  dw3x3_96: 'depthwise 3 x 3, 96 channels',
  conv1x1_256: '1 x 1 convolution, 256 channels',
  matmul256: 'product of 256 x 256',
  matmul1024: 'product of 1024 x 1024',
  bert_base: 'BERT-base, 128 tokens',
  minilm: 'MiniLM, 128 tokens',
  gpt2_decode: 'GPT-2, one token',
  lstm: 'LSTM',
  tiny_add: 'one addition, in and out',
};

/** @returns {{name: string, ours: number, theirs: number}[]} medians in milliseconds */
function readRows() {
  const text = readFileSync(RESULTS, 'utf8');
  const start = text.indexOf(SECTION);
  const table = start < 0 ? -1 : text.indexOf(TABLE, start);
  if (table < 0) throw new Error(`RESULTS.md has no "${TABLE}" below "${SECTION}"`);
  const lines = text.slice(table).split('\n');
  const rows = lines.slice(2, lines.findIndex((line) => !line.startsWith('|')));
  return rows.map((line) => {
    const [model, ours, theirs] = line.split('|').slice(1).map((cell) => cell.trim());
    if (!(model in NAMES)) throw new Error(`the chart has no name for the model ${model}`);
    return { name: NAMES[model], ours: parseFloat(ours), theirs: parseFloat(theirs) };
  });
}

const time = (ms) => (ms < 0.1 ? `${(ms * 1000).toFixed(0)} µs` : ms < 1 ? `${ms.toFixed(2)} ms` : ms < 10 ? `${ms.toFixed(1)} ms` : `${ms.toFixed(0)} ms`);

function draw(rows) {
  const [left, width, step, top] = [220, 300, 24, 44];
  const height = top + rows.length * step + 40;
  const bars = rows.map(({ name, ours, theirs }, i) => {
    const y = top + i * step;
    const end = left + (width * ours) / theirs;
    return `  <text x="${left - 8}" y="${y + 13}" text-anchor="end">${name}</text>
  <rect x="${left}" y="${y}" width="${(end - left).toFixed(1)}" height="18" fill="#2b7a4b"/>
  <text x="${left + 6}" y="${y + 13}" fill="#ffffff">${(ours / theirs).toFixed(2)}</text>
  <text x="${left + width + 10}" y="${y + 13}">${time(ours)} / ${time(theirs)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="720" height="${height}" viewBox="0 0 720 ${height}" role="img" font-family="sans-serif" font-size="12" fill="#24292f">
  <title>Time of webnn-node divided by that of onnxruntime-node</title>
  <rect width="720" height="${height}" fill="#ffffff"/>
  <text x="${left}" y="18" font-size="14" font-weight="bold">Time, onnxruntime-node = 1 (shorter is faster)</text>
  <text x="${left + width + 10}" y="36" font-size="11" fill="#57606a">webnn-node / onnxruntime-node</text>
${bars.join('\n')}
  <line x1="${left + width}" y1="${top - 4}" x2="${left + width}" y2="${top + rows.length * step}" stroke="#c0392b" stroke-dasharray="4 3"/>
  <text x="12" y="${height - 12}" font-size="11" fill="#57606a">${CAPTION}</text>
</svg>
`;
}

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });
const chart = draw(readRows().sort((a, b) => a.ours / a.theirs - b.ours / b.theirs));
if (!values.check) writeFileSync(CHART, chart);
else if (readFileSync(CHART, 'utf8') !== chart) {
  console.error('docs/images/speed.svg is not what `node benches/charts.mjs` draws from benches/RESULTS.md');
  process.exitCode = 1;
}
