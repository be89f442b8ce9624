// For image.mjs: calls the server, says `ready`, says `accepted` when several requests are under way, and ends with 0 if all of them are answered.
import { setTimeout as wait } from 'node:timers/promises';

const origin = 'http://127.0.0.1:8000';
const PARALLEL = 6;

async function infer(model, shape, data) {
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape, data }] });
  const response = await fetch(`${origin}/v2/models/${model}/infer`, { method: 'POST', body });
  const { outputs, error } = await response.json();
  if (response.status !== 200) throw new Error(`${model}: ${response.status} ${error}`);
  return String(outputs[0].data);
}

async function isReady() {
  try {
    return (await fetch(`${origin}/v2/health/ready`)).ok;
  } catch {
    return false; // It does not listen yet.
  }
}

async function underWay() {
  const text = await (await fetch(`${origin}/metrics`)).text();
  return Number(/^webnn_requests_in_flight (\d+)$/m.exec(text)[1]);
}

while (!(await isReady())) await wait(50);
console.log('ready');
const found = await infer('double', [1, 2], [3, 5]);
if (found !== '6,10') throw new Error(`the model gave ${found}`);

let answered = 0;
const running = Array.from({ length: PARALLEL }, async () => {
  const data = await infer('slow', [1, 1], [1]);
  answered++;
  return data;
});
// Those that were answered before are not counted by the server any more.
for (let before = answered; before + (await underWay()) < PARALLEL; before = answered) await wait(5);
console.log('accepted');
const results = await Promise.all(running);
if (new Set(results).size !== 1) throw new Error(`the model gave ${results.join(' and ')}`);
