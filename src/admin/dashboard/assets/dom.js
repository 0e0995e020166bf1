// Elements out of names, properties and texts. A text becomes a text node, whatever is in it; there is no way here to
// make markup of one.
const SVG = 'http://www.w3.org/2000/svg';

// An address that may stand in a link: a path of ours, or a page of the web.
const isSafe = (address) => /^(\/(?!\/)|#|\?|https:\/\/)/.test(address);

function set(element, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (name === 'on') for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
  else if (name === 'data') Object.assign(element.dataset, value);
  else if (name === 'value' || name === 'checked' || name === 'selected') element[name] = value;
  else if (name === 'style') for (const [key, size] of Object.entries(value)) element.style.setProperty(key, size);
  else if (/^on/i.test(name)) throw new TypeError(`${name}: acts are given as functions`);
  else if (name === 'href' && !isSafe(value)) element.setAttribute('data-address', value);
  else element.setAttribute(name, value === true ? '' : value);
}

function fill(element, properties, children) {
  const { value, ...others } = properties ?? {};
  for (const [name, given] of Object.entries(others)) set(element, name, given);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  // A choice is made among what is there already.
  if (value !== undefined) set(element, 'value', value);
  return element;
}

export const h = (name, properties, ...children) => fill(document.createElement(name), properties, children);
export const svg = (name, properties, ...children) => fill(document.createElementNS(SVG, name), properties, children);

let count = 0;
export const unique = (prefix) => `${prefix}-${(count += 1)}`;
