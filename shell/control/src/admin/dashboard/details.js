// Pages about one thing: a user, a call, the server.

import { el, link, say } from './dom.js';
import { bindings, calls, certificates, forwarding, refused } from './lists.js';
import { isPaused } from './live.js';
import { get } from './net.js';
import { duration, number, userOf } from './words.js';

/** Milliseconds from one look to the next. */
const REFRESH = 5000;
/** Requests until a call counts as not found, and calls asked for in each. */
const [TRIES, LIMIT] = [20, 50];

/** What the database has of a user. Nothing is shown of a name that it does not have. */
function account(aor, signal) {
  const node = el('div');
  const at = aor.lastIndexOf('@');
  async function look() {
    const asked = { search: aor.slice(0, at), domain: aor.slice(at + 1), limit: 1000 };
    const found = (await get('/v1/users', asked, signal)).items.find((one) => one.aor === aor);
    if (!found) return;
    node.append(facts([
      ['Added', `${found.created} UTC`],
      ['Changed', `${found.modified} UTC`],
      ['Do not disturb', found.do_not_disturb ? 'on' : 'off'],
      ...forwarding(found).map(([when, to]) => [`Forwarded, ${when}`, to]),
      ['Rings also', found.also_ring.join(', ')],
    ]));
  }
  if (at > 0) look().catch((error) => signal.aborted || say(node, error.message));
  return node;
}

/** A user's account, bindings, calls and refused requests. */
export function user({ parts: [, aor] }) {
  const control = new AbortController();
  const isOf = (uri) => (userOf(uri) || '').toLowerCase() === aor.toLowerCase();
  const lists = [
    ['Registrations', bindings({ caption: `Registrations of ${aor}`, query: { aor }, empty: 'The user is not registered.' })],
    // The colon is that of the scheme: other users' names may end alike.
    ['Calls', calls({ caption: `Calls of ${aor}`, query: { q: `:${aor}` }, only: (call) => isOf(call.from) || isOf(call.to),
      empty: 'The user has no calls.' })],
    ['Refused requests', refused({ caption: `Refused requests about ${aor}`, query: { about: aor } })],
  ];
  return {
    title: aor,
    nodes: [account(aor, control.signal), ...lists.flatMap(([head, list]) => [el('h2', {}, head), list.node])],
    stop: () => {
      control.abort();
      lists.forEach(([, list]) => list.stop());
    },
  };
}

/** Names and values. */
function facts(rows) {
  return el('dl', { class: 'facts' }, rows.filter(([, value]) => value !== null && value !== undefined && value !== '')
    .flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}

/** A page whose facts are asked for again and again. */
function watched(title, ask, show, more = []) {
  const trouble = el('p', { class: 'trouble bad', role: 'alert', hidden: true });
  const shown = el('div');
  const control = new AbortController();
  async function look() {
    try {
      shown.replaceChildren(...show(await ask(control.signal)));
      trouble.hidden = true;
    } catch (error) {
      if (control.signal.aborted) return;
      say(trouble, error.message);
      trouble.hidden = false;
    }
  }
  const timer = setInterval(() => { if (!isPaused()) look(); }, REFRESH);
  look();
  return {
    title,
    nodes: [trouble, shown, ...more.flatMap(([head, list]) => [el('h2', {}, head), list.node])],
    stop: () => { clearInterval(timer); control.abort(); more.forEach(([, list]) => list.stop()); },
  };
}

/** A call. */
export function call({ parts: [, id] }) {
  async function find(signal) {
    const found = [];
    let [after, tries] = [null, 0];
    do {
      const page = await get('/v1/calls', { q: id, after, limit: LIMIT }, signal);
      found.push(...page.items.filter((one) => one.call_id === id));
      after = page.next;
      tries += 1;
    } while (after && !found.length && tries < TRIES);
    return found;
  }
  const party = (uri) => (userOf(uri) ? link(uri, ['user', userOf(uri)]) : uri);
  const one = (c) => facts([
    ['Call-ID', c.call_id],
    ['From', party(c.from)],
    ['To', party(c.to)],
    ['State', c.state],
    [c.state === 'answered' ? 'Answered' : 'Begun', `${duration(c.age_s)} ago`],
    ['Session timer', c.session],
    ['Session interval', c.session_interval_s && duration(c.session_interval_s)],
    ['Last refreshed', `${duration(c.refreshed_s)} ago`],
    ['Worker', number(c.worker)],
  ]);
  const over = () => [el('p', {}, 'The call is over, or this server never had it.')];
  return watched('Call', find, (found) => (found.length ? found.map(one) : over()));
}

/** The server. */
export function server() {
  const show = (s) => [facts([
    ['State', s.state],
    ['Version', s.version],
    ['Role', s.role],
    ['Running for', duration(s.uptime_s)],
    ['Process', String(s.pid)],
    ['Configuration', s.config_file || 'defaults and options'],
    ['Listens on', s.listeners.join(', ')],
    ['Workers', `${s.workers} (${s.steering})`],
    ['Domains', s.domains && (s.domains.join(', ') || 'those of the subscribers')],
    ['Authentication', s.auth === undefined ? null : s.auth ? 'on' : 'OFF'],
    ['Credentials since the start', s.logins && `${number(s.logins.passed)} right, ${number(s.logins.failed)} wrong, `
      + `${number(s.logins.held_off)} not checked after too many wrong ones`],
    ['Store', s.store && `${s.store.healthy ? 'healthy' : 'FAILING'}, ${number(s.store.pending)} pending; ${s.store.detail}`],
    ['Overload', s.overload],
    ['Memory', s.memory],
    ['Messages', `${number(s.messages_received)} received, ${number(s.messages_sent)} sent`],
  ])];
  return watched('Server', (signal) => get('/v1/status', {}, signal), show, [['Certificates', certificates({})]]);
}
