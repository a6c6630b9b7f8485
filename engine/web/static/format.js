// Numbers, durations and texts of users, as text for a person. Unknown values are "–".

export const NONE = "–";

const THIN = "\u202f"; // narrow no-break space between a number and its unit
const STEPS = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];
// Control characters and marks that change the direction of text. They could make a name look like another one.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** Return a text of a user with its invisible characters written out. */
export function visible(text) {
  const whole = String(text);
  return whole.replace(HIDDEN, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Return three significant digits: 1.23, 12.3, 123. */
function digits(value) {
  const size = Math.abs(value);
  if (size >= 99.95) return String(Math.round(value));
  if (size >= 9.995) return trimmed(value.toFixed(1));
  return trimmed(value.toFixed(2));
}

const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);

/** Return a number in a short form: 950, 12.3 k, 1.2 M. */
export function short(value) {
  if (!isNumber(value)) return NONE;
  const size = Math.abs(value);
  const step = STEPS.find(([least]) => size >= least * 0.9995);
  return step ? `${digits(value / step[0])}${THIN}${step[1]}` : digits(value);
}

/** Return a count: exact below 100,000, short above. */
export function count(value) {
  if (!isNumber(value)) return NONE;
  return Math.abs(value) < 100_000 ? grouped(value) : short(value);
}

/** Return a whole number with a narrow space after each three digits. */
export function grouped(value) {
  return isNumber(value) ? String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, THIN) : NONE;
}

/** Return a rate: 0/s, 0.25/s, 12.3 k/s. */
export function rate(value) {
  return isNumber(value) ? `${short(value)}/s` : NONE;
}

/** Return a duration that is given in milliseconds: 35 µs, 3.5 ms, 1.2 s, 2 min 05 s. */
export function ms(value) {
  if (!isNumber(value)) return NONE;
  if (value === 0) return `0${THIN}ms`;
  if (value < 0.9995) return `${digits(value * 1000)}${THIN}µs`;
  if (value < 999.5) return `${digits(value)}${THIN}ms`;
  return secs(value / 1000);
}

/** Return a duration that is given in seconds: 0.4 s, 12 s, 2 min 05 s, 3 h 20 min, 2 d 01 h. */
export function secs(value) {
  if (!isNumber(value)) return NONE;
  if (value < 9.95) return `${trimmed(value.toFixed(1))}${THIN}s`;
  const whole = Math.round(value);
  const pad = (number) => String(number).padStart(2, "0");
  if (whole < 60) return `${whole}${THIN}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}${THIN}min ${pad(whole % 60)}${THIN}s`;
  const hours = Math.floor(whole / 3600);
  if (hours < 24) return `${hours}${THIN}h ${pad(Math.floor((whole % 3600) / 60))}${THIN}min`;
  return `${Math.floor(hours / 24)}${THIN}d ${pad(hours % 24)}${THIN}h`;
}

/** Return a share of 0 to 1 as a percentage. */
export function percent(share) {
  if (!isNumber(share)) return NONE;
  const value = share * 100;
  return `${value > 0 && value < 0.95 ? trimmed(value.toFixed(1)) : Math.round(value)}%`;
}

/** Return a size: 512 B, 1.2 kB, 3.4 MB. */
export function bytes(value) {
  if (!isNumber(value)) return NONE;
  if (value < 1000) return `${Math.round(value)}${THIN}B`;
  return `${short(value)}B`;
}

/** Return the local time of day, of seconds since the epoch or of an ISO date. */
export function clock(time) {
  const date = new Date(isNumber(time) ? time * 1000 : time ?? NaN);
  if (Number.isNaN(date.getTime())) return NONE;
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((part) => String(part).padStart(2, "0")).join(":");
}

/** Return a value of a metric: an integer in full if it is short, else rounded. */
export function figure(value) {
  if (!isNumber(value)) return value === null || value === undefined ? NONE : String(value);
  return Number.isInteger(value) ? count(value) : short(value);
}

/** Return a count with its noun: 1 task, 3 tasks. */
export function plural(value, noun) {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** Return "ok", "warm" or "hot" for a share of 0 to 1. */
export function heat(share) {
  if (!isNumber(share) || share < 0.5) return "ok";
  return share < 0.8 ? "warm" : "hot";
}
