const WORDS = ('the of and to in a is that for it was on with as be by at this from or an are not have has but they which one you were all her she there would their we him been who when '
  + 'more no if out so what up time people year way day man thing woman life child world school state family student group country problem hand part place case week company system '
  + 'program question work government number night point home water room mother area money story fact month lot right study book eye job word business issue side kind head house').split(' ');

/** Texts of 3 to 120 words, most of them short, the same ones at every call. */
export function texts(count, seed = 1) {
  let state = seed;
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  return Array.from({ length: count }, () => {
    const length = 3 + Math.floor(117 * random() ** 3);
    return Array.from({ length }, () => WORDS[Math.floor(random() * WORDS.length)]).join(' ');
  });
}

/** Of a list in order. */
export const percentile = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
