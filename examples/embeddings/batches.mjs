// Texts that wait are computed together. A job is one text: { tokens, length, signal, resolve, reject }.

export class Batches {
  #compute;
  #most;
  #limit;
  #waiting = [];
  #isRunning = false;
  cancelled = 0;

  /**
   * @param {(list: any[], signal: AbortSignal) => Promise<Float32Array[]>} compute
   * @param {{most?: number, limit?: number}} [options] how many are computed together, and how many may wait
   */
  constructor(compute, { most = 32, limit = 4096 } = {}) {
    this.#compute = compute;
    this.#most = most;
    this.#limit = limit;
  }

  get waiting() {
    return this.#waiting.length;
  }

  hasRoomFor(count) {
    return this.#waiting.length + count <= this.#limit;
  }

  /** Rejects with the signal's reason once nobody wants the result. */
  add(value, length, signal) {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const job = { value, length, signal, resolve, reject };
      signal.addEventListener('abort', () => this.#drop(job), { once: true });
      this.#waiting.push(job);
      // What comes in the same turn of the event loop is computed together too.
      if (!this.#isRunning) {
        this.#isRunning = true;
        setImmediate(() => this.#run());
      }
    });
  }

  #drop(job) {
    const at = this.#waiting.indexOf(job);
    if (at < 0) return;
    this.#waiting.splice(at, 1);
    this.cancelled++;
    job.reject(job.signal.reason);
  }

  /** The one that waits longest, and those whose lengths are nearest to its own. */
  #take() {
    const [first] = this.#waiting;
    const near = [...this.#waiting].sort((a, b) => Math.abs(a.length - first.length) - Math.abs(b.length - first.length));
    const jobs = new Set([first, ...near.slice(0, this.#most)].slice(0, this.#most));
    this.#waiting = this.#waiting.filter((job) => !jobs.has(job));
    return [...jobs];
  }

  async #run() {
    while (this.#waiting.length > 0) {
      const jobs = this.#take();
      const unwanted = new AbortController();
      const check = () => {
        if (jobs.every(({ signal }) => signal.aborted)) unwanted.abort();
      };
      for (const { signal } of jobs) signal.addEventListener('abort', check, { once: true });
      try {
        const results = await this.#compute(jobs.map(({ value }) => value), unwanted.signal);
        jobs.forEach((job, i) => job.resolve(results[i]));
      } catch (error) {
        if (unwanted.signal.aborted) this.cancelled += jobs.length;
        for (const job of jobs) job.reject(job.signal.aborted ? job.signal.reason : error);
      }
      for (const { signal } of jobs) signal.removeEventListener('abort', check);
    }
    this.#isRunning = false;
  }
}
