// A vocabulary by chance for constrained output.

/** Numbers below a bound, the same each time. */
export function randomOf(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** A byte-level vocabulary: bytes, numbers, and words of syllables, as they begin a text and behind a space or a mark. */
export function madeUp(count) {
  const random = randomOf(7);
  let next = 256;
  const letters = Array.from({ length: 256 }, (_, byte) => String.fromCodePoint((byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae ? byte : next++));
  const texts = new Set(letters);
  for (let number = 0; number < 1000; number++) texts.add(String(number));
  const marks = ['', 'Ġ', 'Ġ', 'Ġ', '"', 'Ġ"', '_', '.', '(', '-', '/', ',Ġ', 'ĊĊ', '{"', '":'];
  const syllable = () => `${'bcdfghjklmnprstvwz'[random(18)]}${'aeiou'[random(5)]}${['', '', 'n', 'r', 's', 't'][random(6)]}`;
  while (texts.size < count - 1) {
    const word = Array.from({ length: 1 + random(4) }, syllable).join('');
    texts.add(`${marks[random(marks.length)]}${random(5) === 0 ? word[0].toUpperCase() + word.slice(1) : word}${random(12) === 0 ? marks[random(marks.length)] : ''}`);
  }
  const vocab = Object.fromEntries([...texts].map((text, id) => [text, id]));
  return {
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    model: { type: 'BPE', vocab, merges: [] },
    added_tokens: [{ id: texts.size, content: '<end>', special: true, normalized: false }],
  };
}
