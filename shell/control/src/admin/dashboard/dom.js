// Elements made without markup. Texts of strangers (names, URIs, reasons) go in as text and stay text.

const SVG = 'http://www.w3.org/2000/svg';

/** An HTML element. Attributes that are null or false are left out, `onclick` and the like are listeners. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** An SVG element. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) {
      node.addEventListener(key.slice(2), value);
    } else if (key === 'href' && !/^[#/]/.test(value)) {
      throw new Error('links lead to pages of this server only');
    } else {
      node.setAttribute(key, value === true ? '' : value);
    }
  }
  // `append` makes a text of what is no node.
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Sets the text of a node, if it is another one: a reader of screens hears changes only. */
export function say(node, text) {
  const wanted = String(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

/** A link to a page of the dashboard: its parts, and what it is asked with. */
export function link(text, parts, query = {}) {
  return el('a', { href: address(parts, query) }, text);
}

/** The address of a page of the dashboard. */
export function address(parts, query = {}) {
  const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return `#/${parts.map(encodeURIComponent).join('/')}${asked && `?${asked}`}`;
}
