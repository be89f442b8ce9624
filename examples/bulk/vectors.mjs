// The file with the result: NumPy's format, a row of float32 for each row of the input. Each row has its place, so a row that is computed twice is there
// once.
import { open } from 'node:fs/promises';

/** Bytes in front of the rows. */
const HEADER = 128;
const FLOAT = Float32Array.BYTES_PER_ELEMENT;

/** @param {string} file which is made if it is not there */
export async function openVectors(file) {
  // Several processes write; none of them may truncate it.
  const handle = await open(file, 'r+').catch((error) => {
    if (error.code === 'ENOENT') return open(file, 'a').then(async (made) => (await made.close(), open(file, 'r+')));
    throw error;
  });

  /** Writes rows that follow each other. When it resolves, they are on the disk. */
  async function write(first, vectors) {
    const width = vectors[0].length;
    const all = new Float32Array(vectors.length * width);
    vectors.forEach((vector, i) => all.set(vector, i * width));
    const bytes = new Uint8Array(all.buffer);
    const place = HEADER + first * width * FLOAT;
    let written = 0;
    while (written < bytes.length) written += (await handle.write(bytes, written, bytes.length - written, place + written)).bytesWritten;
    await handle.datasync();
  }

  /** Completes the file, and counts rows without content. */
  async function finish(rows) {
    const { size } = await handle.stat();
    const width = Math.ceil((size - HEADER) / FLOAT / rows);
    const about = `{'descr': '<f4', 'fortran_order': False, 'shape': (${rows}, ${width}), }`;
    const head = Buffer.alloc(HEADER, ' ');
    head.write('\x93NUMPY\x01\x00', 0, 'latin1');
    head.writeUInt16LE(HEADER - 10, 8);
    head.write(about, 10, 'latin1');
    head.write('\n', HEADER - 1, 'latin1');
    await handle.write(head, 0, HEADER, 0);
    await handle.truncate(HEADER + rows * width * FLOAT);
    await handle.datasync();
    let missing = 0;
    for (let row = 0; row < rows; row++) {
      const vector = new Float32Array(width);
      await handle.read(new Uint8Array(vector.buffer), 0, vector.byteLength, HEADER + row * vector.byteLength);
      if (!(Math.abs(Math.hypot(...vector) - 1) < 1e-3)) missing++;
    }
    return { width, missing };
  }

  return { write, finish, close: () => handle.close() };
}
