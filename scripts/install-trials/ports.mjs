// Ports of this machine that nobody listens on.
import { once } from 'node:events';
import { createServer } from 'node:net';

export async function freePorts(count) {
  const servers = await Promise.all(Array.from({ length: count }, async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return server;
  }));
  const ports = servers.map((server) => server.address().port);
  for (const server of servers) server.close();
  return ports;
}
