// The queue, as all programs of this example know it. A job is some rows that follow each other: { first, texts }.
import { Queue } from 'bullmq';
import { Redis } from 'ioredis';

/** How often the rows of a job may lose their worker. After that they are taken for what kills it, and the job fails. */
const MOST_LOSSES = 100;
/** Jobs that are sent to Redis at once. */
const AT_ONCE = 64;

export const connect = (url) => new Redis(url, { maxRetriesPerRequest: null });

export const openQueue = (name, connection) => new Queue(name, { connection });

/**
 * A worker renews the lock on its jobs. When it has not for so many seconds, another one takes them.
 * @param {number} lock
 */
export const workerOptions = (lock) => ({ lockDuration: lock * 1000, stalledInterval: lock * 1000, maxStalledCount: MOST_LOSSES });

/**
 * Adds all rows. A job is known by its rows, so whoever adds them twice adds nothing.
 * @param {import('bullmq').Queue} queue
 * @param {AsyncIterable<string> | Iterable<string>} rows
 * @param {number} size rows of a job
 * @returns {Promise<{ rows: number, jobs: number }>}
 */
export async function addRows(queue, rows, size) {
  const added = { rows: 0, jobs: 0 };
  let jobs = [];
  let texts = [];
  const addJob = () => {
    // Finished jobs stay: they are how a job that is added again is known to be done.
    jobs.push({ name: 'embed', data: { first: added.rows, texts }, opts: { jobId: `rows-${added.rows}` } });
    added.rows += texts.length;
    added.jobs++;
    texts = [];
  };
  const send = async () => {
    await queue.addBulk(jobs);
    jobs = [];
  };
  for await (const text of rows) {
    texts.push(text);
    if (texts.length === size) addJob();
    if (jobs.length === AT_ONCE) await send();
  }
  if (texts.length > 0) addJob();
  if (jobs.length > 0) await send();
  return added;
}
