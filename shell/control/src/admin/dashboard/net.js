// Requests to the server that this page is from.

const KEY = 'strowger-token';

/** Why the server refused. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The token is kept until the tab is closed. */
export function setToken(token) {
  sessionStorage.setItem(KEY, token);
}

function options(signal) {
  const token = sessionStorage.getItem(KEY);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  return { headers, signal, cache: 'no-store', credentials: 'omit', redirect: 'error' };
}

async function ask(path, query, signal) {
  const asked = Object.entries(query).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  const search = new URLSearchParams(asked).toString();
  let response;
  try {
    response = await fetch(path + (search && `?${search}`), options(signal));
  } catch (error) {
    throw error.name === 'AbortError' ? error : new Refused(0, 'The server does not answer.');
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  throw new Refused(response.status, said.error || response.statusText);
}

/** An answer in JSON. */
export async function get(path, query = {}, signal) {
  return (await ask(path, query, signal)).json();
}

/** Server-sent events, by `fetch`: `EventSource` sends no token and hides why it failed. */
export async function* events(path, signal) {
  const reader = (await ask(path, {}, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n\n');
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split('\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6));
      if (data.length) yield JSON.parse(data.join('\n'));
    }
  }
}
