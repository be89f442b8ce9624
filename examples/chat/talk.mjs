// The messages of a chat: what the model sees of them, and the file that keeps them.
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';

export class Talk {
  /**
   * @param {{file?: string, system?: string}} options `file` keeps the messages; `system` is the first of a new chat
   */
  constructor({ file, system }) {
    this.file = file;
    this.messages = file !== undefined && existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).messages : [];
    if (this.messages.length === 0 && system !== undefined) this.add('system', system);
  }

  /** How many questions there were. */
  get questions() {
    return this.messages.filter(({ role }) => role === 'user').length;
  }

  add(role, content) {
    this.messages.push({ role, content });
    this.#save();
  }

  /** Forgets the last message. */
  drop() {
    this.messages.pop();
    this.#save();
  }

  /**
   * The latest messages that fit, with the system's. All of them are kept in the file.
   * @param {(messages: object[]) => number} count their tokens
   * @param {number} most
   */
  fitting(count, most) {
    const first = this.messages[0]?.role === 'system' ? 1 : 0;
    let dropped = 0;
    const shown = () => [...this.messages.slice(0, first), ...this.messages.slice(first + dropped)];
    // A question and its answer go together.
    while (count(shown()) > most && this.messages.length - first - dropped > 2) dropped += 2;
    return shown();
  }

  /** A file is complete or not there, also if the process ends while it is written. */
  #save() {
    if (this.file === undefined) return;
    writeFileSync(`${this.file}.new`, JSON.stringify({ messages: this.messages }, undefined, 2));
    renameSync(`${this.file}.new`, this.file);
  }
}
