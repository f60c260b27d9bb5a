// A chart of the last minutes, drawn as SVG.

import { el, say, svg } from './dom.js';
import { KEPT, samples } from './live.js';
import { duration, number } from './words.js';

const [WIDTH, HEIGHT] = [600, 100];
/** The shortest and the longest time that a chart shows, milliseconds. */
const [SHORTEST, LONGEST] = [60 * 1000, KEPT * 1000];
/** Samples from one description for readers of screens to the next. */
const DESCRIBED = 10;
const calm = matchMedia('(prefers-reduced-motion: reduce)');

/** A chart. `lines`: name of each and its value in a sample, null where there is none. `least`: the
 *  least top of the scale. */
export function chart({ title, lines, show = number, least = 1 }) {
  const paths = lines.map((_, at) => svg('path', { class: `line l${at}` }));
  const values = lines.map(() => el('b'));
  const drawing = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': title },
    svg('path', { class: 'grid', d: `M0 ${HEIGHT / 2}H${WIDTH}` }), paths);
  const [top, since] = [el('span', { class: 'top' }), el('span')];
  const legend = el('ul', { class: 'legend' }, lines.map(({ name }, at) => el('li', {}, key(at), `${name}: `, values[at])));
  const node = el('figure', { class: 'plot' }, el('figcaption', {}, el('h2', {}, title), legend),
    el('div', { class: 'drawing' }, drawing, top),
    el('p', { class: 'times', 'aria-hidden': 'true' }, since, el('span', {}, 'now')));
  let drawn = 0;

  function draw() {
    // Who wants little motion sees a new picture every few seconds.
    if (drawn++ % (calm.matches ? 5 : 1)) return;
    const series = lines.map(({ of }) => samples.map(of));
    const high = nice(Math.max(least, ...series.flat().filter((value) => value !== null)));
    const now = samples.at(-1).at_ms;
    const span = Math.min(Math.max(now - samples[0].at_ms, SHORTEST), LONGEST);
    series.forEach((points, at) => paths[at].setAttribute('d', path(points, now, span, high)));
    series.forEach((points, at) => say(values[at], show(points.at(-1))));
    say(top, show(high));
    say(since, `${duration(span / 1000)} ago`);
    if (drawn % DESCRIBED === 1) {
      const said = lines.map(({ name }, at) => `${name} ${show(series[at].at(-1))}`).join(', ');
      drawing.setAttribute('aria-label', `${title}, the last ${duration(span / 1000)}. Now: ${said}. Top of the scale: ${show(high)}.`);
    }
  }
  return { node, draw };
}

function key(at) {
  return svg('svg', { viewBox: '0 0 26 8', 'aria-hidden': 'true' }, svg('path', { class: `line l${at}`, d: 'M1 4H25' }));
}

/** A line through values, with gaps where there is none. */
function path(points, now, span, high) {
  let [drawn, open] = ['', false];
  points.forEach((value, at) => {
    if (value !== null) {
      const x = WIDTH * (1 - (now - samples[at].at_ms) / span);
      const y = HEIGHT - 1 - (HEIGHT - 4) * value / high;
      drawn += `${open ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
    }
    open = value !== null;
  });
  return drawn;
}

/** The next number of the form 1, 2 or 5 times a power of ten. */
function nice(value) {
  const step = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((times) => times * step).find((top) => top >= value * 0.999);
}
