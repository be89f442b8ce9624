/**
 * A table as text for a terminal.
 * @param {string[]} head
 * @param {string[][]} body
 * @param {number} left columns of words, the first ones; those of numbers are aligned to the right
 */
export function aligned(head, body, left) {
  const widths = head.map((title, column) => Math.max(title.length, ...body.map((cells) => cells[column].length)));
  const line = (cells) =>
    cells
      .map((cell, column) => (column < left ? cell.padEnd(widths[column]) : cell.padStart(widths[column])))
      .join('  ')
      .trimEnd();
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...body.map(line)].join('\n');
}
