// A registry on this machine, that serves tarballs of a folder, and sends package managers on to another one for everything else, or
// nowhere: then nothing else can be reached.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { ours } from '../package/description.mjs';
import { parts } from '../package/parts.mjs';
import { platforms } from '../package/targets.mjs';
import { readTarball } from '../package/tarball.mjs';

/**
 * @param {{ upstream?: string, forwards?: boolean }} [options] `forwards`: it asks `upstream` itself, for those who cannot
 * @returns {Promise<{ url: string, asked: string[], has: (name: string) => boolean, close: () => void }>} `asked` is what it did not have
 */
export async function startRegistry(folder, { upstream, forwards = false } = {}) {
  const packages = readPackages(folder);
  const built = new Set(packages.keys());
  addPlatforms(packages);
  const asked = [];
  const server = createServer((request, response) => {
    const name = decodeURIComponent(request.url.split('?')[0].slice(1));
    const [wanted, file] = name.split('/-/');
    const found = packages.get(wanted);
    if (found && found.tarballs.has(file)) {
      response.writeHead(200, { 'content-type': 'application/octet-stream' }).end(found.tarballs.get(file));
    } else if (found && file === undefined) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(describe(found, url)));
    } else if (upstream && !wanted.startsWith('@webnn-node/')) {
      const there = new URL(request.url.slice(1), upstream);
      if (forwards) void forward(there, request, response);
      else response.writeHead(302, { location: there.href }).end();
    } else {
      asked.push(wanted);
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"Not found"}');
    }
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${server.address().port}/`;
  return { url, asked, has: (name) => built.has(name), close: () => server.close() };
}

async function forward(url, { headers }, response) {
  try {
    const found = await fetch(url, { headers: { accept: headers.accept ?? '*/*' } });
    const body = Buffer.from(await found.arrayBuffer());
    response.writeHead(found.status, { 'content-type': found.headers.get('content-type') ?? '' }).end(body);
  } catch (error) {
    response.writeHead(502, { 'content-type': 'text/plain' }).end(error.message);
  }
}

function readPackages(folder) {
  const packages = new Map();
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.tgz'))) {
    const bytes = readFileSync(path.join(folder, file));
    addTarball(packages, file, bytes, JSON.parse(readTarball(bytes).get('package.json')));
  }
  return packages;
}

function addTarball(packages, file, bytes, description) {
  const { name } = description;
  const entry = packages.get(name) ?? { name, versions: [], tarballs: new Map() };
  const hash = (algorithm, encoding) => createHash(algorithm).update(bytes).digest(encoding);
  entry.versions.push({ description, file, integrity: `sha512-${hash('sha512', 'base64')}`, shasum: hash('sha1', 'hex') });
  entry.tarballs.set(file, bytes);
  packages.set(name, entry);
}

/** A release has all platforms. Those that are not built here are empty: managers see what is described, and Yarn 1 fetches all. */
function addPlatforms(packages) {
  const { version } = ours();
  for (const part of parts) {
    for (const [platform, { os, cpu, libc }] of Object.entries(platforms)) {
      const name = part.packageOf(platform);
      if (packages.has(name)) continue;
      const description = { name, version, os: [os], cpu: [cpu], ...(libc ? { libc: [libc] } : {}) };
      addTarball(packages, `${platform}.tgz`, tarballOf(JSON.stringify(description)), description);
    }
  }
}

/** A tarball that has package.json alone: one header of ustar, the content, and the end. */
function tarballOf(text) {
  const header = Buffer.alloc(512);
  const fields = { 0: 'package/package.json', 100: '0000644', 124: text.length.toString(8).padStart(11, '0'), 136: '0'.repeat(11), 148: ' '.repeat(8), 156: '0', 257: 'ustar\x0000' };
  for (const [at, words] of Object.entries(fields)) header.write(words, Number(at), 'latin1');
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  const content = Buffer.alloc(Math.ceil(text.length / 512) * 512 + 1024);
  content.write(text);
  return gzipSync(Buffer.concat([header, content]));
}

function describe({ name, versions }, url) {
  const described = versions.map(({ description, file, integrity, shasum }) => [
    description.version,
    { ...description, _id: `${name}@${description.version}`, dist: { tarball: `${url}${name}/-/${file}`, integrity, shasum } },
  ]);
  return {
    name,
    'dist-tags': { latest: described[0][0] },
    versions: Object.fromEntries(described),
    time: Object.fromEntries(described.map(([version]) => [version, '2020-01-01T00:00:00.000Z'])),
  };
}
