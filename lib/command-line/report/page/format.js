'use strict';

// Numbers for people.

/** Milliseconds with three digits that count. */
function time(ms) {
  if (ms === 0) return '0';
  if (ms < 1) return `${digits(ms * 1e3)} µs`;
  return ms < 1000 ? `${digits(ms)} ms` : `${digits(ms / 1000)} s`;
}

/** Three digits that count. */
function digits(number) {
  if (number >= 100 || number === 0) return number.toFixed(0);
  return number.toFixed(number >= 10 ? 1 : number >= 1 ? 2 : 3);
}

function share(part, whole) {
  const percent = (100 * part) / (whole || 1);
  return `${percent.toFixed(percent < 10 ? 1 : 0)} %`;
}

function count(number, unit) {
  const scale = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.max(number, 1)) / 3)));
  return `${digits(number / 1000 ** scale)} ${['', 'k', 'M', 'G', 'T'][scale]}${unit}`;
}

/** A step of an axis, of which about so many fit: 1, 2 or 5 times a power of ten. */
function tick(length, wanted) {
  const rough = length / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}

module.exports = { count, digits, share, tick, time };
