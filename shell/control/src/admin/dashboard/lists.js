// The lists of the server: which columns they have, and where their items lead.

import { el, link } from './dom.js';
import { table } from './table.js';
import { bytes, duration, number, userOf } from './words.js';

/** Where a user's calls are forwarded to: when, and the target. */
export function forwarding(user) {
  return Object.entries(user.forwarding).filter(([, to]) => to).map(([when, to]) => [when.replace('_', ' '), to]);
}

const USERS = [
  { head: 'User', kind: 'row', cell: (u) => link(u.aor, ['user', u.aor]) },
  { head: 'Registrations', kind: 'n', cell: (u) => number(u.bindings) },
  { head: 'Do not disturb', kind: 'short', cell: (u) => (u.do_not_disturb ? 'on' : '') },
  { head: 'Forwarded', kind: 'long', cell: (u) => forwarding(u).map(([when, to]) => `${when}: ${to}`).join(', ') },
  { head: 'Added (UTC)', kind: 'short', cell: (u) => u.created },
  { head: 'Changed (UTC)', kind: 'short', cell: (u) => u.modified },
];

/** How good or bad a state is. */
const TONES = { up: 'good', ready: 'good', open: 'good', registered: 'good', down: 'bad', refused: 'bad', failing: 'bad' };

/** A word with its colour. */
export function badge(word) {
  return el('span', { class: `badge ${TONES[word] || 'fair'}` }, word);
}

/** A URI, which leads to its user if it names one. */
function party(uri) {
  const user = userOf(uri);
  return user ? link(uri, ['user', user]) : uri;
}

const BINDINGS = [
  { head: 'User', kind: 'row', cell: (b) => link(b.aor, ['user', b.aor]) },
  { head: 'Contact', kind: 'long', cell: (b) => b.contact },
  { head: 'Received from', kind: 'long', cell: (b) => b.received },
  { head: 'Expires in', kind: 'n', cell: (b) => duration(b.expires_s) },
  { head: 'User-Agent', kind: 'long', cell: (b) => b.user_agent },
  { head: 'Priority', kind: 'n', cell: (b) => number(b.q) },
];

const CALLS = [
  { head: 'Call-ID', kind: 'row', cell: (c) => link(c.call_id, ['call', c.call_id]) },
  { head: 'From', kind: 'long', cell: (c) => party(c.from) },
  { head: 'To', kind: 'long', cell: (c) => party(c.to) },
  { head: 'State', kind: 'short', cell: (c) => c.state },
  { head: 'Age', kind: 'n', cell: (c) => duration(c.age_s) },
  { head: 'Session', kind: 'short', cell: (c) => c.session },
  { head: 'Worker', kind: 'n', cell: (c) => number(c.worker) },
];

const TRUNKS = [
  { head: 'List', kind: 'row', cell: (t) => t.list },
  { head: 'Target', kind: 'long', cell: (t) => t.target },
  { head: 'State', kind: 'short', cell: (t) => badge(t.state) },
  { head: 'Why', kind: 'long', cell: (t) => t.why },
  { head: 'For', kind: 'n', cell: (t) => duration(t.since_s) },
  { head: 'Requests', kind: 'n', cell: (t) => number(t.calls) },
  { head: 'Failures', kind: 'n', cell: (t) => number(t.failures) },
  { head: 'Last error', kind: 'long', cell: (t) => t.last_error && `${t.last_error}, ${duration(t.last_error_s)} ago` },
];

/** The 95th percentile of the times of one kind of transaction at a node. */
function high(node, kind) {
  const times = node.times.find((one) => one.kind === kind);
  return times && times.count ? `${number(times.p95_ms)} ms` : '';
}

const NODES = [
  { head: 'Node', kind: 'row', cell: (n) => n.name },
  { head: 'Health', kind: 'short', cell: (n) => badge(n.health) },
  { head: 'Why', kind: 'long', cell: (n) => n.why },
  { head: 'Order', kind: 'short', cell: (n) => n.order },
  { head: 'New calls', kind: 'short', cell: (n) => (n.takes_calls ? 'yes' : 'no') },
  { head: 'Weight', kind: 'n', cell: (n) => number(n.weight) },
  { head: 'Calls', kind: 'n', cell: (n) => number(n.calls) },
  { head: 'Unfinished', kind: 'n', cell: (n) => number(n.transactions) },
  { head: 'Assigned', kind: 'n', cell: (n) => number(n.assigned) },
  { head: 'INVITE, 95 %', kind: 'n', cell: (n) => high(n, 'invite') },
  { head: 'Falls', kind: 'n', cell: (n) => number(n.falls) },
];

const CONNECTIONS = [
  { head: 'Peer', kind: 'row', cell: (c) => c.peer },
  { head: 'Transport', kind: 'short', cell: (c) => c.transport },
  { head: 'Names', kind: 'long', cell: (c) => c.names.join(', ') },
  { head: 'Opened by', kind: 'short', cell: (c) => (c.inbound ? 'the peer' : 'this server') },
  { head: 'State', kind: 'short', cell: (c) => badge(c.state) },
  { head: 'Age', kind: 'n', cell: (c) => duration(c.age_s) },
  { head: 'Idle', kind: 'n', cell: (c) => duration(c.idle_s) },
  { head: 'In', kind: 'n', cell: (c) => bytes(c.bytes_in) },
  { head: 'Out', kind: 'n', cell: (c) => bytes(c.bytes_out) },
  { head: 'TLS', kind: 'long', cell: (c) => c.tls && `${c.tls} ${c.suite || ''}` },
  { head: 'Worker', kind: 'n', cell: (c) => number(c.worker) },
];

const REFUSED = [
  { head: 'Source', kind: 'row', cell: (r) => r.source },
  { head: 'About', kind: 'long', cell: (r) => (/^[^:@]+@[^@]+$/.test(r.about) ? link(r.about, ['user', r.about]) : r.about) },
  { head: 'Reason', kind: 'long', cell: (r) => r.reason },
  { head: 'Ago', kind: 'n', cell: (r) => duration(r.ago_s) },
  { head: 'Times', kind: 'n', cell: (r) => number(r.times) },
  { head: 'Worker', kind: 'n', cell: (r) => number(r.worker) },
];

const CERTIFICATES = [
  { head: 'File', kind: 'row', cell: (c) => c.chain },
  { head: 'Names', kind: 'long', cell: (c) => c.names.join(', ') },
  { head: 'Issuer', kind: 'long', cell: (c) => c.issuer },
  { head: 'Valid until', kind: 'long', cell: (c) => c.not_after },
  { head: 'Days left', kind: 'n', cell: (c) => c.days_left !== null && number(c.days_left) },
  { head: 'Key', kind: 'short', cell: (c) => c.key_kind },
  { head: 'Fault', kind: 'long', cell: (c) => c.fault },
];

export const bindings = (more) => table({ caption: 'Registrations', path: '/v1/bindings', columns: BINDINGS,
  empty: 'Nobody is registered.', ...more });
export const users = (more) => table({ caption: 'Users', path: '/v1/users', searched: 'search', columns: USERS,
  empty: 'There are no users: `strowger user add` adds one.', ...more });
export const calls = (more) => table({ caption: 'Calls in progress', path: '/v1/calls', columns: CALLS,
  empty: 'There are no calls.', ...more });
export const trunks = (more) => table({ caption: 'Trunks and other targets', path: '/v1/trunks', columns: TRUNKS,
  empty: 'No trunk, route or other target is configured.', ...more });
export const nodes = (more) => table({ caption: 'Nodes', path: '/v1/nodes', columns: NODES, empty: 'There are no nodes.', ...more });
export const connections = (more) => table({ caption: 'Stream connections', path: '/v1/connections', columns: CONNECTIONS,
  empty: 'There are no stream connections.', ...more });
export const refused = (more) => table({ caption: 'Refused requests, the latest first', path: '/v1/refused', columns: REFUSED,
  empty: 'Nothing was refused.', ...more });
export const certificates = (more) => table({ caption: 'Certificates', path: '/v1/certificates', columns: CERTIFICATES,
  empty: 'TLS is not in use.', ...more });
