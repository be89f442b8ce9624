// npm run bench -- charts: draws the charts of the documentation from the tables of results/. `--check` only tells whether they are up to date.
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';

const COLORS = { 'webnn-node': '#2b7a4b', 'onnxruntime-node': '#8c959f', 'llama.cpp': '#b08800' };
const [WIDTH, LEFT, TOP, FONT] = [720, 220, 44, 'font-family="sans-serif" font-size="12" fill="#24292f"'];

/** The cells of the last table of a page's section whose first line begins so. */
function tableOf(page, section, header) {
  const results = readFileSync(new URL(page, import.meta.url), 'utf8');
  const start = results.indexOf(`\n## ${section}\n`);
  if (start < 0) throw new Error(`${page} has no section "${section}"`);
  const end = results.indexOf('\n## ', start + 1);
  const text = results.slice(start, end < 0 ? undefined : end);
  const at = text.lastIndexOf(`\n${header}`);
  if (at < 0) throw new Error(`${page} has no table "${header}" in "${section}"`);
  const lines = text.slice(at + 1).split('\n');
  const count = lines.findIndex((line) => !line.startsWith('|'));
  return lines.slice(2, count).map((line) => line.split('|').slice(1, -1).map((cell) => cell.trim()));
}

const NETWORKS = {
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

const time = (ms) => (ms < 0.1 ? `${(ms * 1000).toFixed(0)} µs` : ms < 1 ? `${ms.toFixed(2)} ms` : ms < 10 ? `${ms.toFixed(1)} ms` : `${ms.toFixed(0)} ms`);
const text = (x, y, content, more = '') => `  <text x="${x}" y="${y}"${more}>${content}</text>`;
const bar = (y, width, height, color) => `  <rect x="${LEFT}" y="${y}" width="${width.toFixed(1)}" height="${height}" fill="${color}"/>`;

function frame(title, height, caption, content) {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" role="img" ${FONT}>`,
    `  <title>${title}</title>`,
    `  <rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    text(LEFT, 18, title, ' font-size="14" font-weight="bold"'),
    ...content,
    text(12, height - 12, caption, ' font-size="11" fill="#57606a"'),
    '</svg>\n',
  ].join('\n');
}

/** Times of networks as parts of onnxruntime-node's. */
function speed() {
  const [width, step] = [300, 24];
  const rows = tableOf('results/networks.md', '26 November 2026: quantized networks on a Zen 4', '| model | 1 thread: ours |')
    .map(([model, ours, theirs]) => ({ name: NETWORKS[model] ?? model, ours: parseFloat(ours), theirs: parseFloat(theirs) }))
    .sort((a, b) => a.ours / a.theirs - b.ours / b.theirs);
  const bottom = TOP + rows.length * step;
  const lines = rows.flatMap(({ name, ours, theirs }, i) => {
    const y = TOP + i * step;
    return [
      text(LEFT - 8, y + 13, name, ' text-anchor="end"'),
      bar(y, (width * ours) / theirs, 18, COLORS['webnn-node']),
      text(LEFT + 6, y + 13, (ours / theirs).toFixed(2), ' fill="#ffffff"'),
      text(LEFT + width + 10, y + 13, `${time(ours)} / ${time(theirs)}`),
    ];
  });
  lines.push(text(LEFT + width + 10, 36, 'webnn-node / onnxruntime-node', ' font-size="11" fill="#57606a"'));
  lines.push(`  <line x1="${LEFT + width}" y1="${TOP - 4}" x2="${LEFT + width}" y2="${bottom}" stroke="#c0392b" stroke-dasharray="4 3"/>`);
  const caption = 'Two cores of an AMD EPYC (Zen 4, AVX-512), one thread, medians; onnxruntime-node 1.30; 26 November 2026';
  return frame('Time, onnxruntime-node = 1 (shorter is faster)', bottom + 40, caption, lines);
}

/** Tokens a second of decoders. */
function tokens() {
  const [width, step, height] = [420, 58, 15];
  const rows = tableOf('results/sequences.md', '28 November 2026: keys read once for the heads that share them', '| tokens/s | prompt of 128 |')
    .filter(([name, , , behind8]) => !name.includes('two threads') && behind8 !== '')
    .map(([name, , , behind8]) => ({ name, values: behind8.match(/[\d.]+/g).map(Number) }));
  const most = Math.max(...rows.flatMap(({ values }) => values));
  const lines = rows.flatMap(({ name, values }, i) =>
    values.flatMap((value, k) => {
      const y = TOP + i * step + k * (height + 1);
      const color = Object.values(COLORS)[k];
      const label = k === 0 ? [text(LEFT - 8, y + 28, name, ' text-anchor="end"')] : [];
      return [...label, bar(y, (width * value) / most, height, color), text(LEFT + (width * value) / most + 6, y + 12, `${value}`, ' font-size="11"')];
    }),
  );
  Object.entries(COLORS).forEach(([name, color], k) => {
    lines.push(text(LEFT + k * 140, 36, `■ ${name}`, ` font-size="11" fill="${color}"`));
  });
  const caption = 'Behind 8 tokens, one thread, two cores of an AMD EPYC (Zen 5, AVX-512); onnxruntime-node 1.30; 28 November 2026';
  return frame('Tokens a second of decoders (longer is faster)', TOP + rows.length * step + 30, caption, lines);
}

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });
for (const [name, draw] of Object.entries({ speed, tokens })) {
  const file = new URL(`../docs/images/${name}.svg`, import.meta.url);
  const chart = draw();
  if (!values.check) writeFileSync(file, chart);
  else if (readFileSync(file, 'utf8') !== chart) {
    console.error(`docs/images/${name}.svg is out of date: npm run bench -- charts`);
    process.exitCode = 1;
  }
}
