'use strict';

// Nothing but a promise keeps the process alive until it has settled, however it was asked for.

const { open } = require('./work.js');

async function main() {
  const context = await open();
  const tensor = await context.createTensor({ dataType: 'float32', shape: [1 << 24], readable: true });
  context.readTensor(tensor).then((bytes) => console.log(bytes.byteLength));
}

main();
