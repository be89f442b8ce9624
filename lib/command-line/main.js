'use strict';

// npx webnn-node: runs a command, and sets the exit status.

const { Usage, meant } = require('./options.js');

const USAGE = `webnn-node COMMAND [options]

  run MODEL.onnx        runs a model and prints its inputs, outputs, a summary of values and timings
  inspect MODEL.onnx    prints operators, parameters, memory, and unsupported nodes
  bench MODEL.onnx      measures latency, throughput and memory; compares with onnxruntime-node and an earlier result
  profile MODEL.onnx    prints the time of each step and operator; also as a page (--html) or a trace for Perfetto
  serve FOLDER          serves models over HTTP and gRPC, with the package @webnn-node/serve
  cache                 lists, checks, clears and fills the cache of packed weights
  devices               lists the devices that createContext can select here

webnn-node COMMAND --help lists the options of a command.
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the model has unsupported nodes.
`;

const commands = {
  run: () => require('./run.js'),
  inspect: () => require('./inspect.js'),
  bench: () => require('./bench.js'),
  profile: () => require('./profile.js'),
  serve: () => require('./serve.js'),
  cache: () => require('./cache.js'),
  devices: () => require('./devices.js'),
};

/** @param {string[]} args */
async function main([name, ...args]) {
  // A reader such as `head` may stop early.
  process.stdout.on('error', (error) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit();
  });
  if (name === undefined || name === '--help' || name === '-h' || name === 'help') {
    process.stdout.write(USAGE);
    process.exitCode = name === undefined ? 2 : 0;
    return;
  }
  if (name === '--version') {
    console.log(require('../version.js'));
    return;
  }
  if (!Object.hasOwn(commands, name)) {
    console.error(`webnn-node: there is no command ${JSON.stringify(name)}${meant(name, Object.keys(commands))}\n\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  const command = commands[name]();
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(command.usage);
    return;
  }
  try {
    process.exitCode = (await command.run(args)) ?? 0;
  } catch (error) {
    report(error, command, args.includes('--json'));
  }
}

function report(error, command, json) {
  if (error instanceof Usage) {
    // The list of all options would move the message out of sight.
    console.error(`webnn-node: ${error.message}\nUsage: ${command.usage.split('\n')[0]}; --help lists the options`);
    process.exitCode = 2;
    return;
  }
  const unsupported = error.nodes;
  if (json) console.log(JSON.stringify({ error: { name: error.name, message: error.message }, unsupported }, null, 2));
  else console.error(`webnn-node: ${error.message}`);
  process.exitCode = unsupported === undefined ? 1 : 3;
}

module.exports = { main };
