// Numbers and names as people read them.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const parts = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 });

/** A number: whole ones in full, others with three digits. */
export function number(value) {
  if (value === null || value === undefined) return '\u2013';
  return Number.isInteger(value) || value >= 1000 ? whole.format(value) : parts.format(value);
}

/** Milliseconds. */
export function millis(value) {
  return value === null || value === undefined ? '\u2013' : `${number(value)} ms`;
}

/** A share, 0 to 1. */
export function percent(value) {
  return value === null || value === undefined ? '\u2013' : `${parts.format(value * 100)} %`;
}

/** Seconds. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return '\u2013';
  const [days, hours, minutes] = [seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60].map(Math.floor);
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}

/** Octets. */
export function bytes(count) {
  const steps = ['B', 'kB', 'MB', 'GB', 'TB'];
  let [value, at] = [count, 0];
  while (value >= 1000 && at < steps.length - 1) [value, at] = [value / 1000, at + 1];
  return `${number(value)} ${steps[at]}`;
}

/** The address-of-record in a SIP URI; null if there is none. */
export function userOf(uri) {
  const found = /^sips?:([^@;?]+@[^;?>:]+)/i.exec(uri);
  return found && found[1];
}
