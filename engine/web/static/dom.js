// Small functions on the document. They write only what has changed, and they write every text as text, never as markup.

import { visible } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const written = new WeakMap(); // element -> what these functions wrote last

/** Return what was written to an element: a Map of names to texts. */
function memory(element) {
  let known = written.get(element);
  if (!known) written.set(element, (known = new Map()));
  return known;
}

function changed(element, name, value) {
  const known = memory(element);
  if (known.get(name) === value) return false;
  known.set(name, value);
  return true;
}

/** Set the text of an element that has no child elements. */
export function setText(element, text) {
  if (!changed(element, "#text", text)) return;
  if (element.firstChild) element.firstChild.data = visible(text); // cheaper than another text node
  else element.textContent = visible(text);
}

// Attributes that may hold texts of users. Only setAddress sets others, so none can become a script.
const SAFE = new Set([
  ...["aria-label", "aria-sort", "aria-pressed", "aria-expanded", "aria-hidden", "aria-selected", "aria-current", "aria-valuetext"],
  ...["class", "data-heat", "data-id", "data-kind", "data-level", "data-state", "data-step", "for", "hidden", "id", "name", "role", "scope"],
  ...["tabindex", "title", "type", "value", "placeholder", "autocomplete", "spellcheck", "colspan", "open"],
  ...["d", "cx", "cy", "r", "x", "y", "x1", "x2", "y1", "y2", "width", "height", "viewBox", "stroke-width", "transform", "preserveAspectRatio"],
]);

/** Set an attribute of the list above. null removes it. */
export function setAttr(element, name, value) {
  if (!SAFE.has(name)) throw new Error(`the attribute ${name} is not on the list of safe ones`);
  const text = value === null || value === undefined || value === false ? null : value === true ? "" : String(value);
  if (!changed(element, name, text)) return;
  if (text === null) element.removeAttribute(name);
  else element.setAttribute(name, name === "title" || name === "aria-label" ? visible(text) : text);
}

/** Let a link open another site in a tab of its own. An address that is not http or https gives no link. */
export function setAddress(link, address) {
  if (!changed(link, "#address", address)) return;
  const isWeb = URL.canParse(address ?? "") && ["http:", "https:"].includes(new URL(address).protocol);
  for (const [name, value] of [["href", address], ["target", "_blank"], ["rel", "noopener noreferrer"]]) {
    if (isWeb) link.setAttribute(name, value);
    else link.removeAttribute(name);
  }
}

/** Switch a class on or off. */
export function setClass(element, name, isOn) {
  if (changed(element, `.${name}`, Boolean(isOn))) element.classList.toggle(name, Boolean(isOn));
}

/** Set a property of the style. */
export function setStyle(element, name, value) {
  if (changed(element, `:${name}`, value)) element.style.setProperty(name, value);
}

/** Show or hide an element. */
export function setShown(element, isShown) {
  if (changed(element, "#shown", Boolean(isShown))) element.hidden = !isShown;
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") setText(element, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else setAttr(element, name, value);
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

/** Create an element: el("td", {class: "number", text: "12"}). A function under "onclick" listens to the event. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Create an element of SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Return the element with this id. */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

/** Children of one element by key. `show` adds, moves and removes as few children as possible. */
export class Keyed {
  /** create(item) returns {element, update(item)}, and `forget` if something must end with the child. */
  constructor(host, create) {
    this.host = host;
    this.create = create;
    this.parts = new Map();
  }

  /** Show items in this order. keyOf must return a different key for each. */
  show(items, keyOf) {
    const shown = items.map((item) => [keyOf(item), item]);
    const wanted = new Set(shown.map(([key]) => key));
    for (const [key, part] of this.parts) {
      if (wanted.has(key)) continue;
      part.forget?.();
      part.element.remove(); // before the moves: one removal would else move all that follow
      this.parts.delete(key);
    }
    let next = this.host.firstElementChild;
    for (const [key, item] of shown) {
      let part = this.parts.get(key);
      if (!part) this.parts.set(key, (part = this.create(item)));
      part.update(item);
      if (part.element === next) next = next.nextElementSibling;
      else this.host.insertBefore(part.element, next);
    }
  }
}
