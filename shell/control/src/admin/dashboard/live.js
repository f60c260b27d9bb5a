// Live values: the last minutes of samples, and what is reckoned from one to the next.

import { events } from './net.js';

/** Samples kept, one a second. */
export const KEPT = 300;
/** Samples that a quantile is taken of, and those of a ratio. */
const QUANTILE = 10;
const RATIO = 60;
/** Milliseconds until the first new try, and the longest wait between tries. */
const [FIRST, LONGEST] = [1000, 15000];

export const samples = [];
const followers = new Set();
let [paused, stop, wake] = [false, () => {}, () => {}];

/** Calls `follower` with each sample. Answers how to end that. */
export function follow(follower) {
  followers.add(follower);
  if (samples.length) follower(samples.at(-1));
  return () => followers.delete(follower);
}

/** Stops or goes on. */
export function pause(on) {
  paused = on;
  stop();
  wake();
}

export const isPaused = () => paused || document.hidden;

/** Tries at once, because the reason of a refusal may be gone. */
export const retry = () => wake();

/** Receives for ever. `tell(state, why)`: `live`, `paused` or `lost`. */
export async function receive(tell) {
  document.addEventListener('visibilitychange', () => pause(paused));
  let wait = FIRST;
  for (;;) {
    if (isPaused()) {
      tell('paused');
      await new Promise((resolve) => { wake = resolve; });
      continue;
    }
    const control = new AbortController();
    stop = () => control.abort();
    try {
      for await (const sample of events('/v1/events', control.signal)) {
        wait = FIRST;
        tell('live');
        add(sample);
      }
    } catch (error) {
      if (control.signal.aborted) continue;
      tell('lost', error);
      await new Promise((resolve) => { wake = resolve; setTimeout(resolve, wait); });
      wait = Math.min(wait * 2, LONGEST);
    }
  }
}

function add(sample) {
  // The server has been restarted: its counters began anew.
  if (samples.length && sample.at_ms < samples.at(-1).at_ms) samples.length = 0;
  samples.push(sample);
  if (samples.length > KEPT) samples.shift();
  sample.rates = sample.role === 'balance' ? ofBalancer() : ofServer();
  for (const follower of followers) follower(sample);
}

/** What a counter grew by in a second, between the last two samples. */
function rate(pick) {
  const [before, now] = samples.slice(-2);
  return now ? (pick(now) - pick(before)) * 1000 / (now.at_ms - before.at_ms) : null;
}

/** What a counter grew by over the last samples. */
function growth(pick, over) {
  const [before, now] = [samples.at(-1 - over) || samples[0], samples.at(-1)];
  return pick(now) - pick(before);
}

function ofServer() {
  const [answered, failed] = [growth((s) => s.calls_answered, RATIO), growth((s) => s.calls_failed, RATIO)];
  return {
    received: rate((s) => s.messages_received),
    sent: rate((s) => s.messages_sent),
    answered: rate((s) => s.calls_answered),
    failed: rate((s) => s.calls_failed),
    ratio: answered + failed ? answered / (answered + failed) : null,
    registrations: rate((s) => s.registrations),
    registrationsRefused: rate((s) => s.registrations_refused),
    refused: rate((s) => s.requests_refused),
    overload: rate((s) => s.overload_refused),
    answer: quantiles((s) => s.answer),
    setup: quantiles((s) => s.setup),
  };
}

function ofBalancer() {
  return {
    received: rate((s) => s.messages_received),
    sent: rate((s) => s.messages_sent),
    assigned: rate((s) => s.assigned),
    refused: rate((s) => s.requests_refused),
    overload: rate((s) => s.held_back),
  };
}

/** Median and 95th percentile of the durations that the last samples added, milliseconds. */
function quantiles(pick) {
  const [before, now] = [samples.at(-1 - QUANTILE) || samples[0], samples.at(-1)];
  const old = new Map(pick(before));
  const added = pick(now).map(([upper, count]) => [upper, count - (old.get(upper) || 0)]);
  const total = added.reduce((sum, [, count]) => sum + count, 0);
  const of = (part) => {
    let rank = Math.ceil(total * part);
    const found = total && added.find(([, count]) => (rank -= count) <= 0);
    return found ? found[0] / 1000 : null;
  };
  return { median: of(0.5), high: of(0.95) };
}
