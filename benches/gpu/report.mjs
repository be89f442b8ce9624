// The figures as a table of Markdown.

const ENGINES = ['webnn-wgpu', 'webnn-dawn', 'onnxruntime-node', 'onnxruntime-web'];
const CONTROL = 'webnn-wgpu again';
/** Engines round otherwise; of random weights the answers are of about one size. */
const TOLERANCE = { float32: 2e-2, float16: 0.1 };

/** Rows: a part, and of a decoder each prompt and the steps behind it. */
function rows({ parts }) {
  return parts.flatMap((part) => {
    if (!part.prompts) return [{ name: part.name, part, time: (one) => one.ms }];
    return part.prompts.flatMap((length) => [
      { name: `${part.name}: first token of ${length}`, part, length, time: ({ prompts }) => prompts?.[length]?.first },
      { name: `${part.name}: a step behind ${length}`, part, time: ({ prompts }) => prompts?.[length]?.step },
    ]);
  });
}

/** Milliseconds that the device needs at least for the operations, and for the weights. */
function least({ part, length = 1 }, roofline) {
  if (!roofline) return undefined;
  const { flops, weightBytes, each, options } = part;
  const type = options.type ?? 'float32';
  const rate = roofline.most[type] ?? roofline.most.float32;
  const operations = (((part.shorter ? (flops * each) / (each + 1) : flops) / (each ?? 1)) * length * 1000) / rate;
  // The weights of a chain are those of all its links.
  const bytes = part.network === 'products' ? 0 : ((weightBytes / (part.shorter ? each + 1 : 1)) * 1000) / roofline.most.bytes;
  return Math.max(operations, bytes);
}

/** Whether an engine computed something else than the first that has an answer. */
function disagrees({ part }, engine) {
  const answers = part.measured[engine]?.answers;
  const first = ENGINES.map((name) => part.measured[name]?.answers).find(Boolean);
  if (!answers || !first || part.prompts) return false;
  const largest = Math.max(...first.map(Math.abs), 1e-3);
  return answers.some((value, i) => !(Math.abs(value - first[i]) <= TOLERANCE[part.options.type] * largest));
}

const digits = (ms) => (ms < 10 ? ms.toFixed(3) : ms.toFixed(1));

function cell(row, engine) {
  const one = row.part.measured[engine];
  if (one === undefined) return '';
  const ms = row.time(one);
  if (ms === undefined) return '–';
  return `${digits(ms)}${one.wrong || disagrees(row, engine) ? ' WRONG' : ''}`;
}

function line(row, roofline) {
  const time = (engine) => row.part.measured[engine] && row.time(row.part.measured[engine]);
  const fastest = (names) => Math.min(...names.map((name) => time(name) ?? Infinity));
  const [ours, theirs] = [fastest(ENGINES.slice(0, 2)), fastest(ENGINES.slice(2))];
  const bound = least(row, roofline);
  const ratio = Number.isFinite(ours) && Number.isFinite(theirs) ? (ours / theirs).toFixed(2) : '';
  const control = time(CONTROL) && time(ENGINES[0]) ? (time(CONTROL) / time(ENGINES[0])).toFixed(2) : '';
  const share = bound !== undefined && Number.isFinite(ours) ? (bound / ours).toFixed(2) : '';
  return [row.name, ...ENGINES.map((engine) => cell(row, engine)), ratio, control, bound === undefined ? '' : digits(bound), share];
}

export function table(report) {
  const { roofline, engines, warning, parts } = report;
  const head = ['ms', ...ENGINES, 'ours / better peer', 'control', 'roofline', 'share of it'];
  const lines = [head, head.map((_, i) => (i === 0 ? '---' : '---:')), ...rows(report).map((row) => line(row, roofline))];
  const most = roofline && Object.entries(roofline.most).map(([what, value]) => (what === 'bytes' ? `${(value / 1e9).toFixed(1)} GB/s` : `${what} ${(value / 1e12).toFixed(3)} TFLOP/s`));
  const notes = Object.entries(engines).map(([name, { adapter, version, error }]) => `- ${name} ${version ?? ''}: ${error ?? adapter ?? 'unknown adapter'}`);
  const errors = parts.flatMap(({ name, measured }) => Object.entries(measured).filter(([, { error }]) => error).map(([engine, { error }]) => `- ${name}, ${engine}: ${error.replace(/\s+/g, ' ')}`));
  return [
    ...(warning ? [`**${warning}**`, ''] : []),
    ...lines.map((cells) => `| ${cells.join(' | ')} |`),
    '',
    most ? `${roofline.adapter}: ${most.join(', ')} (measured).` : 'No roofline was measured.',
    'onnxruntime-node: caches of decoders pass through the host.',
    ...notes,
    ...(errors.length > 0 ? ['', 'Not measured:', '', ...errors] : []),
  ].join('\n');
}
