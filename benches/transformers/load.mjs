import http from 'node:http';
import { percentile } from './texts.mjs';

/** So many clients, each of which asks again as soon as it has its answer, for some seconds. */
export async function load(port, texts, clients, seconds) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: clients });
  const times = [];
  const end = performance.now() + seconds * 1000;
  let next = 0;
  const ask = () => new Promise((resolve, reject) => {
    const request = http.request({ port, agent, method: 'POST' }, (response) => {
      response.resume();
      response.on('end', () => (response.statusCode === 200 ? resolve() : reject(new Error(`status ${response.statusCode}`))));
    });
    request.on('error', reject);
    request.end(texts[next++ % texts.length]);
  });
  await Promise.all(Array.from({ length: clients }, async () => {
    while (performance.now() < end) {
      const start = performance.now();
      await ask();
      times.push(performance.now() - start);
    }
  }));
  agent.destroy();
  times.sort((a, b) => a - b);
  return { throughput: times.length / seconds, p50: percentile(times, 0.5), p99: percentile(times, 0.99) };
}
