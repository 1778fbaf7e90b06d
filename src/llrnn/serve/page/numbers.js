// How numbers are written: a true minus sign, always as many decimals, so that columns of them line up.

const MINUS = "\u2212";

/** 1.2346, −0.5000; null is minus infinity, the logarithm of nothing. */
export function plain(value, decimals = 4) {
  if (value === null || value === undefined) return `${MINUS}∞`;
  const text = Math.abs(value).toFixed(decimals);
  return value < 0 && Number(text) !== 0 ? MINUS + text : text;
}

/** With its sign: +1.2346, −0.5000. */
export function signed(value, decimals = 4) {
  const text = plain(value, decimals);
  return text.startsWith(MINUS) || Number(text) === 0 ? text : `+${text}`;
}

/** A probability as a percentage; what is not zero never looks like it. */
export function percent(p) {
  if (p > 0 && p < 0.000005) return "< 0.001 %";
  return `${(100 * p).toFixed(3)} %`;
}

/** 3,694 */
export function count(n) {
  return n.toLocaleString("en");
}

/** "1 word", "12 words" */
export function counted(n, noun) {
  return `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
}
