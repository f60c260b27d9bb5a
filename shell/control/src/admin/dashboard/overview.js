// The first page: how the server is, now and in the last minutes.

import { chart } from './chart.js';
import { el, say } from './dom.js';
import { nodes, trunks } from './lists.js';
import { follow } from './live.js';
import { millis, number, percent, duration } from './words.js';

const of = (name) => (sample) => sample.rates[name];
const MESSAGES = { title: 'Messages per second', lines: [{ name: 'received', of: of('received') }, { name: 'sent', of: of('sent') }] };
const CALLS = { title: 'Calls now', lines: [{ name: 'calls', of: (s) => s.calls }] };

const SERVE = {
  tiles: [
    ['Calls', (s) => number(s.calls)],
    ['Calls per second', (s) => number(s.rates.answered === null ? null : s.rates.answered + s.rates.failed)],
    ['Answered, last minute', (s) => percent(s.rates.ratio)],
    ['Users registered', (s) => number(s.registered)],
    ['Bindings', (s) => number(s.bindings)],
    ['Connections', (s) => number(s.connections)],
    ['Overload', (s) => s.overload],
    ['Running for', (s) => duration(s.at_ms / 1000)],
  ],
  charts: [
    CALLS,
    { title: 'New calls per second', lines: [{ name: 'answered', of: of('answered') }, { name: 'failed', of: of('failed') }] },
    { title: 'Answer ratio, last minute', show: percent, lines: [{ name: 'answered', of: of('ratio') }] },
    { title: 'Users registered', lines: [{ name: 'users', of: (s) => s.registered }, { name: 'bindings', of: (s) => s.bindings }] },
    { title: 'REGISTER per second',
      lines: [{ name: 'accepted', of: of('registrations') }, { name: 'refused', of: of('registrationsRefused') }] },
    { title: 'Refused per second',
      lines: [{ name: 'by rule or as malformed', of: of('refused') }, { name: 'in overload', of: of('overload') }] },
    { title: 'Response time', show: millis,
      lines: [{ name: 'median', of: (s) => s.rates.answer.median }, { name: '95 %', of: (s) => s.rates.answer.high }] },
    { title: 'Time to answer a call', show: millis,
      lines: [{ name: 'median', of: (s) => s.rates.setup.median }, { name: '95 %', of: (s) => s.rates.setup.high }] },
    MESSAGES,
  ],
  list: trunks,
};

const BALANCE = {
  tiles: [
    ['Calls', (s) => number(s.calls)],
    ['Transactions per second', (s) => number(s.rates.assigned)],
    ['Nodes with new calls', (s) => `${s.nodes.filter((node) => node.takes_calls).length} of ${s.nodes.length}`],
    ['Algorithm', (s) => s.algorithm],
    ['Connections', (s) => number(s.connections)],
    ['Running for', (s) => duration(s.at_ms / 1000)],
  ],
  charts: [
    CALLS,
    { title: 'Transactions per second', lines: [{ name: 'given to nodes', of: of('assigned') }] },
    { title: 'Refused per second', lines: [{ name: 'refused', of: of('refused') }, { name: 'held back', of: of('overload') }] },
    { title: 'INVITE, 95 %, slowest node', show: millis, lines: [{ name: 'time', of: slowest }] },
    MESSAGES,
  ],
  list: nodes,
};

/** The longest of the nodes' 95th percentiles, milliseconds. */
function slowest(sample) {
  const times = sample.nodes.flatMap((node) => node.times).filter((one) => one.kind === 'invite' && one.count);
  return times.length ? Math.max(...times.map((one) => one.p95_ms)) : null;
}

/** The page, for a server of this role. */
export function overview({ role }) {
  const { tiles, charts, list } = role === 'balance' ? BALANCE : SERVE;
  const values = tiles.map(() => el('dd', {}, '\u2013'));
  const drawn = charts.map(chart);
  const listed = list({});
  const end = follow((sample) => {
    tiles.forEach(([, show], at) => say(values[at], show(sample)));
    drawn.forEach(({ draw }) => draw());
  });
  const nodesShown = [
    el('dl', { class: 'tiles' }, tiles.map(([name], at) => el('div', {}, el('dt', {}, name), values[at]))),
    el('section', { class: 'plots', 'aria-label': 'Charts of the last minutes' }, drawn.map(({ node }) => node)),
    el('h2', {}, role === 'balance' ? 'Nodes' : 'Trunks and other targets'),
    listed.node,
  ];
  return { title: 'Overview', nodes: nodesShown, stop: () => { end(); listed.stop(); } };
}
