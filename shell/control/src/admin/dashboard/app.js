// The dashboard: which page is shown, and the live values.

import { address, el, say } from './dom.js';
import { call, server, user } from './details.js';
import * as lists from './lists.js';
import * as live from './live.js';
import { get, setToken } from './net.js';
import { overview } from './overview.js';

const at = (id) => document.getElementById(id);
const main = at('main');

/** A page that is one list, with a search that stays in the address. */
function listed(title, list, hint) {
  return ({ parts, query }) => {
    const onsearch = (q) => history.replaceState(null, '', address(parts, { q }));
    const { node, stop } = list({ hint, search: query.get('q') || '', onsearch });
    return { title, nodes: [node], stop };
  };
}

/** Pages by the first part of their address. `in`: the name in the menu; `of`: the role that has them. */
const PAGES = {
  '': { show: overview, in: 'Overview' },
  bindings: { show: listed('Registrations', lists.bindings, 'user, Contact, address or User-Agent'), in: 'Registrations', of: 'serve' },
  users: { show: listed('Users', lists.users, 'part of the name'), in: 'Users', of: 'serve' },
  calls: { show: listed('Calls', lists.calls, 'Call-ID, From or To'), in: 'Calls', of: 'serve' },
  trunks: { show: listed('Trunks', lists.trunks, 'list, target or state'), in: 'Trunks', of: 'serve' },
  nodes: { show: listed('Nodes', lists.nodes), in: 'Nodes', of: 'balance' },
  connections: { show: listed('Connections', lists.connections, 'address or name of the peer'), in: 'Connections' },
  refused: { show: listed('Refused requests', lists.refused, 'source, user or target'), in: 'Refused', of: 'serve' },
  server: { show: server, in: 'Server' },
  user: { show: user, of: 'serve', parts: 2 },
  call: { show: call, of: 'serve', parts: 2 },
};

let [role, shown] = [null, { stop() {} }];

/** The address of the page: its parts, and what it is asked with. */
function place() {
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?', 2);
  try {
    return { parts: path.split('/').map(decodeURIComponent), query: new URLSearchParams(query), role };
  } catch {
    return { parts: [], query: new URLSearchParams(), role };
  }
}

function noPage() {
  return { title: 'No such page', nodes: [el('p', {}, 'The menu has all pages.')], stop() {} };
}

/** Shows the page of the address. `moved`: a person has chosen it, and reads on at its head. */
function show(moved) {
  if (!role) return;
  shown.stop();
  const asked = place();
  const [first] = asked.parts;
  const page = Object.hasOwn(PAGES, first) ? PAGES[first] : null;
  const is = page && has(page) && asked.parts.length === (page.parts || 1) && asked.parts.every((p, n) => p || !n);
  shown = is ? page.show(asked) : noPage();
  const head = el('h1', { tabindex: '-1' }, shown.title);
  main.replaceChildren(head, ...shown.nodes);
  document.title = `${shown.title} \u2013 Strowger`;
  for (const link of at('pages').querySelectorAll('a')) {
    if (link.dataset.page === first) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (moved) {
    scrollTo(0, 0);
    head.focus();
  }
}

/** Whether this server has a page. */
const has = (page) => (!page.of || page.of === role);

function menu() {
  const entries = Object.entries(PAGES).filter(([, page]) => page.in && has(page));
  at('pages').replaceChildren(...entries.map(([path, page]) =>
    el('li', {}, el('a', { href: address([path]), 'data-page': path }, page.in))));
}

/** Asks for the token that the server wants. */
function askForToken(why) {
  if (at('token')) return;
  shown.stop();
  [role, shown] = [null, { stop() {} }];
  const input = el('input', { type: 'password', id: 'token', required: true, autocomplete: 'off' });
  const submit = (event) => {
    event.preventDefault();
    setToken(input.value.trim());
    main.replaceChildren();
    begin();
    live.retry();
  };
  main.replaceChildren(el('h1', {}, 'Token'),
    el('p', {}, `The server says: ${why}. It is in the file that admin.token_file names. Or make one: strowger token add NAME --rights read.`),
    el('form', { onsubmit: submit }, el('label', {}, 'Token', input), el('button', {}, 'Go on')));
  input.focus();
}

/** Learns what the server is, and shows the page. */
async function begin() {
  try {
    ({ role } = await get('/v1/status'));
    menu();
    show(false);
  } catch (error) {
    // A token without the right to read is answered with 403.
    if (error.status === 401 || /token/.test(error.message)) return askForToken(error.message);
    main.replaceChildren(el('h1', {}, 'No answer'), el('p', { class: 'trouble bad', role: 'alert' }, error.message));
    setTimeout(begin, 3000);
  }
}

const SAID = { live: 'Live values arrive.', paused: 'Live values are paused.' };

function tell(state, why) {
  say(at('link'), SAID[state] || `Live values are interrupted: ${why.message}. A new try follows.`);
  if (state !== 'live') {
    say(at('state'), state);
    at('state').className = 'badge fair';
  }
  if (why && why.status === 401) askForToken(why.message);
}

let alarms = '';

function head(sample) {
  say(at('state'), sample.state);
  at('state').className = `badge ${sample.state === 'ready' ? 'good' : 'fair'}`;
  const now = sample.alarms.join('\n');
  if (now === alarms) return;
  alarms = now;
  at('alarms').replaceChildren(...sample.alarms.map((alarm) => el('p', { class: 'alarm bad' }, alarm)));
  at('alarms').hidden = !now;
}

at('pause').addEventListener('click', () => {
  const on = at('pause').getAttribute('aria-pressed') !== 'true';
  at('pause').setAttribute('aria-pressed', String(on));
  live.pause(on);
});
at('skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener('hashchange', () => show(true));
live.follow(head);
begin();
live.receive(tell);
