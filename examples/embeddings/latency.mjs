/** The last so many durations, and their percentiles. */
export class Latency {
  #kept = [];
  #next = 0;
  #limit;
  count = 0;

  constructor(limit = 1000) {
    this.#limit = limit;
  }

  add(milliseconds) {
    this.count++;
    this.#kept[this.#next] = milliseconds;
    this.#next = (this.#next + 1) % this.#limit;
  }

  /** null where there were none. */
  percentile(part) {
    if (this.#kept.length === 0) return null;
    const sorted = [...this.#kept].sort((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
  }
}
