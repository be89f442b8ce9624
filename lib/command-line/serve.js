'use strict';

const { createRequire } = require('node:module');
const path = require('node:path');
const version = require('../version.js');
const { Usage, performanceOf, readOptions } = require('./options.js');
const { modelsProgress } = require('./progress.js');

const usage = `webnn-node serve FOLDER [options]

Serves the models of a folder: NAME.onnx, NAME/VERSION/model.onnx, or folders of the Hugging Face Hub. It needs the package @webnn-node/serve.

  --host ADDRESS         the address to listen on (default: 127.0.0.1; 0.0.0.0 for all)
  --port NUMBER          the port for HTTP (default: 8000)
  --grpc-port NUMBER     the port for gRPC (default: no gRPC)
  --name NAME            FOLDER is one model, or a file of one, with this name
  --versions NUMBER      number of the latest versions of each model to load (default: all)
  --device cpu|gpu|npu   the device (default: cpu)
  --threads NUMBER       threads of the CPU (default: the cores that the process may use)
  --performance HINT     latency, throughput, or the number of concurrent runs (default: depends on the load)
  --memory-limit MIB     the most memory of all models (default: 80 % of a container's limit)
  --max-batch NUMBER     the most requests (or their rows) in a joined run; 1 turns joining off (default: 16)
  --speculate prompt     guess tokens of language models from the text before
  --prompt-cache MIB     the most memory for cached prompts, for each language model; 0 turns the cache off (default: 1024)
  --max-in-flight NUMBER the most requests at a time; others get 429 (default: 256)
  --max-body MIB         the largest request (default: 64)
  --timeout SECONDS      the most time of a run (default: 60)
  --grace SECONDS        the most time to answer accepted requests after SIGTERM (default: 25)
  --drain-delay SECONDS  after SIGTERM, keep answering for this time while reporting "not ready" to load balancers (default: 0)
  --token-file FILE      requests need the bearer token in this file (or in WEBNN_SERVE_TOKEN)
  --tls-cert FILE, --tls-key FILE   certificate and key, in PEM
  --cache FOLDER         keeps packed weights on disk in this folder, for a faster start
  --log-level LEVEL      debug, info, warn, error or silent (default: info)
  --help                 this text
`;

const options = Object.fromEntries(
  ['host', 'port', 'grpc-port', 'name', 'versions', 'device', 'threads', 'performance', 'memory-limit', 'max-batch', 'speculate', 'prompt-cache', 'max-in-flight', 'max-body', 'timeout', 'grace', 'drain-delay', 'token-file', 'tls-cert', 'tls-key', 'cache', 'log-level'].map((name) => [name, { type: 'string' }]),
);

/** A number that was given, or nothing. */
function number(values, name, { least = 1, most = 2 ** 31 } = {}) {
  const text = values[name];
  if (text === undefined) return undefined;
  const found = /^\d{1,10}$/.test(text) ? Number(text) : NaN;
  if (!(found >= least && found <= most)) throw new Usage(`--${name} ${text}: expected a whole number from ${least} to ${most}`);
  return found;
}

const times = (factor, found) => (found === undefined ? undefined : found * factor);
const port = (values, name) => number(values, name, { least: 0, most: 65_535 });

function choices(values, folder) {
  if ((values['tls-cert'] === undefined) !== (values['tls-key'] === undefined)) throw new Usage('--tls-cert and --tls-key: expected both');
  const { device = 'cpu', 'log-level': logLevel } = values;
  if (!['cpu', 'gpu', 'npu'].includes(device)) throw new Usage(`--device ${device}: expected cpu, gpu or npu`);
  if (logLevel !== undefined && !['debug', 'info', 'warn', 'error', 'silent'].includes(logLevel)) throw new Usage(`--log-level ${logLevel}: expected debug, info, warn, error or silent`);
  const all = {
    models: folder,
    name: values.name,
    host: values.host,
    port: port(values, 'port'),
    grpcPort: port(values, 'grpc-port'),
    versions: number(values, 'versions'),
    deviceType: device,
    numThreads: number(values, 'threads'),
    performance: performanceOf(values.performance),
    memoryLimit: times(2 ** 20, number(values, 'memory-limit')),
    maxInFlight: number(values, 'max-in-flight'),
    bodyLimit: times(2 ** 20, number(values, 'max-body', { most: 4096 })),
    timeout: times(1000, number(values, 'timeout', { most: 1_000_000 })),
    grace: times(1000, number(values, 'grace', { most: 1_000_000 })),
    drainDelay: times(1000, number(values, 'drain-delay', { least: 0, most: 1_000_000 })),
    token: tokenOf(values['token-file']),
    tlsCert: values['tls-cert'],
    tlsKey: values['tls-key'],
    onnx: onnxOptions(values),
    speculate: speculateOf(values),
    promptCache: times(2 ** 20, number(values, 'prompt-cache', { least: 0 })),
    onProgress: modelsProgress(),
    logLevel,
  };
  // What is not given is the server's choice.
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

function onnxOptions(values) {
  const maxSize = number(values, 'max-batch', { most: 1024 });
  const batching = maxSize === undefined ? {} : { batching: maxSize > 1 && { maxSize } };
  return { ...(values.cache === undefined ? {} : { cache: values.cache }), ...batching };
}

function speculateOf({ speculate }) {
  if (speculate !== undefined && speculate !== 'prompt') throw new Usage(`--speculate ${speculate}: expected prompt`);
  return speculate;
}

/** A token is no argument: those are seen by all users of a machine. */
function tokenOf(file) {
  if (file === undefined) return process.env.WEBNN_SERVE_TOKEN;
  const token = require('node:fs').readFileSync(file, 'utf8').trim();
  if (token === '') throw new Usage(`--token-file ${file}: the file is empty`);
  return token;
}

/** The package, of the project in which the command runs, or beside this one. */
function requireServer() {
  for (const place of [path.join(process.cwd(), 'index.js'), __filename]) {
    try {
      return createRequire(place)('@webnn-node/serve');
    } catch (error) {
      if (error.code !== 'MODULE_NOT_FOUND' || !error.message.includes("'@webnn-node/serve'")) throw error;
    }
  }
  throw new Error(`the server is a separate package, which is not installed. Run "npm install @webnn-node/serve@${version}".`);
}

async function run(args) {
  const { values, positionals } = readOptions(args, options);
  if (positionals.length !== 1) throw new Usage(`found ${positionals.length} folders, allowed one`);
  const chosen = choices(values, positionals[0]);
  process.exitCode = await requireServer().serve(chosen);
  // Connections that clients keep open end here, and runs that did not end in time.
  process.exit();
}

module.exports = { run, usage };
