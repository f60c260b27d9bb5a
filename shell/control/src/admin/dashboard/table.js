// A table of a list of the server, a page at a time, with a search.

import { el, say } from './dom.js';
import { isPaused } from './live.js';
import { get } from './net.js';

/** Rows of a page. */
const ROWS = 50;
/** Requests for one page. The server looks at a bounded number of items for each. */
const TRIES = 20;
/** Milliseconds from one look to the next, and from the last key to the search. */
const [REFRESH, TYPING] = [5000, 300];

/** A table. `columns`: `head`, `cell` of an item, and `kind`: `row` names the row, `n` is a number, `short`
 *  and `long` are texts. `hint`: what the search finds; without it there is none. `searched`: its
 *  parameter. `only` leaves items out. */
export function table({ caption, path, columns, query = {}, searched = 'q', only = () => true, hint, search = '', onsearch = () => {}, empty }) {
  let [text, marks, next, cheap, control, typing] = [search, [null], null, true, new AbortController(), 0];
  const body = el('tbody');
  const said = el('output');
  const trouble = el('p', { class: 'trouble bad', role: 'alert', hidden: true });
  const back = el('button', { type: 'button', onclick: () => turn(() => marks.pop()) }, 'Previous');
  const on = el('button', { type: 'button', onclick: () => turn(() => marks.push(next)) }, 'Next');
  const again = el('button', { type: 'button', onclick: () => load() }, 'Refresh');
  const head = el('tr', {}, columns.map((column) => el('th', { scope: 'col', class: column.kind === 'n' && 'n' }, column.head)));
  const region = el('div', { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: '0' },
    el('table', {}, el('caption', {}, caption), el('thead', {}, head), body));
  const node = el('div', {}, hint && form(), trouble, region, el('div', { class: 'pages' }, back, on, again, said));

  function form() {
    const input = el('input', { type: 'search', name: 'q', value: text, maxlength: '200', autocomplete: 'off', spellcheck: 'false',
      oninput: () => {
        clearTimeout(typing);
        typing = setTimeout(find, TYPING, input.value);
      } });
    const submit = (event) => {
      event.preventDefault();
      clearTimeout(typing);
      find(input.value);
    };
    return el('form', { role: 'search', onsubmit: submit }, el('label', {}, `Search: ${hint}`, input), el('button', {}, 'Find'));
  }

  function find(wanted) {
    [text, marks] = [wanted.trim(), [null]];
    onsearch(text);
    return load();
  }

  function turn(move) {
    move();
    region.scrollTop = 0;
    return load();
  }

  async function load() {
    control.abort();
    control = new AbortController();
    const { signal } = control;
    region.setAttribute('aria-busy', 'true');
    try {
      const items = await page(signal);
      body.replaceChildren(...items.map(row));
      trouble.hidden = true;
      describe(items.length);
    } catch (error) {
      if (signal.aborted) return;
      say(trouble, error.message);
      trouble.hidden = false;
    }
    region.removeAttribute('aria-busy');
  }

  /** The items of the page, and in `next` where the one after it begins. */
  async function page(signal) {
    const items = [];
    let [after, tries] = [marks.at(-1), 0];
    do {
      const asked = { ...query, after, limit: ROWS - items.length };
      if (text) asked[searched] = text;
      const got = await get(path, asked, signal);
      items.push(...got.items.filter(only));
      after = got.next;
      tries += 1;
    } while (after && items.length < ROWS && tries < TRIES);
    [next, cheap] = [after || null, tries === 1];
    return items;
  }

  function row(item) {
    return el('tr', {}, columns.map(({ kind, cell }) => {
      const shown = cell(item) ?? '';
      return kind === 'row' ? el('th', { scope: 'row' }, shown) : el('td', { class: kind }, shown);
    }));
  }

  function describe(count) {
    back.disabled = marks.length < 2;
    on.disabled = !next;
    say(on, next && count < ROWS ? 'Search on' : 'Next');
    const rows = count === 1 ? '1 row' : `${count} rows`;
    const end = next ? '' : ', the last page';
    say(said, count || next || marks.length > 1 ? `Page ${marks.length}: ${rows}${end}` : text ? 'Nothing found.' : empty);
  }

  // A later page, or one with the focus or a selection in it, stays as it is.
  const timer = setInterval(() => {
    const isInUse = body.contains(document.activeElement) || !getSelection().isCollapsed;
    if (!isPaused() && cheap && !text && marks.length === 1 && !isInUse) load();
  }, REFRESH);
  const loaded = load();
  return { node, loaded, stop: () => { clearInterval(timer); clearTimeout(typing); control.abort(); } };
}
