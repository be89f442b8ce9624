'use strict';

const os = require('node:os');
const { Usage, readOptions } = require('./options.js');

const usage = `webnn-node devices [options]

  --json    print JSON
  --help    this text
`;

async function run(args) {
  const { values, positionals } = readOptions(args, {});
  if (positionals.length > 0) throw new Usage(`found ${JSON.stringify(positionals[0])}, allowed no argument`);
  const { cores } = require('../cores.js');
  const { ml } = require('../index.js');
  const devices = [];
  for (const deviceType of ['cpu', 'gpu', 'npu']) {
    try {
      const context = await ml.createContext({ deviceType });
      devices.push({ deviceType, available: true, accelerated: context.accelerated });
      context.destroy();
    } catch (error) {
      devices.push({ deviceType, available: false, reason: error.message });
    }
  }
  const cpu = { model: os.cpus()[0]?.model.trim() ?? 'unknown', threads: cores() };
  if (values.json) {
    console.log(JSON.stringify({ devices, cpu }, null, 2));
    return;
  }
  for (const { deviceType, available, accelerated, reason } of devices) {
    const about = deviceType === 'cpu' ? `${cpu.model}, ${cpu.threads} threads` : accelerated ? 'accelerated' : 'a software device';
    console.log(`${deviceType}  ${available ? about : `not available: ${reason}`}`);
  }
}

module.exports = { run, usage };
