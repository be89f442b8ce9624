// Counts what passed and failed over several steps, names each step, and ends with one line that a machine can read.
export class Tally {
  #passed = 0;
  #failed = 0;
  #steps = [];

  /** @param {{ name: string, passed: number, failed: number, note?: string, seconds?: number, isBeside?: boolean }} step */
  add({ name, passed, failed, note = '', seconds = 0, isBeside = false }) {
    this.#passed += passed;
    this.#failed += failed;
    const verdict = failed === 0 ? 'ok  ' : 'FAIL';
    const line = `${verdict} ${name}: ${passed} passed, ${failed} failed${note && `, ${note}`} (${seconds.toFixed(1)} s${isBeside ? ', beside others' : ''})`;
    this.#steps.push(line);
    console.log(line);
  }

  say(text) {
    console.log(text);
  }

  /** The same for a step that runs beside others: `mark` stands in front of its lines. */
  beside(mark) {
    return { mark, add: (step) => this.add({ ...step, isBeside: true }), say: (text) => console.log(text.trim().replace(/^/gm, `${mark} | `)) };
  }

  /** Prints every step again and the sum, and sets the exit code. */
  finish() {
    console.log(`\n${this.#steps.join('\n')}\n\n${this.#passed} passed, ${this.#failed} failed`);
    process.exitCode = this.#failed === 0 ? 0 : 1;
  }
}
