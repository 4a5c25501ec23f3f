// Making elements. Data only ever becomes text nodes and attributes; nothing on the page is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

/** An HTML element: el("p", { class: "note", onclick: handler }, "text", otherNode). */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** The width of pictures in their own units: on a narrow screen they are narrower instead of being shrunk with their letters. */
export const PICTURE_WIDTH = Math.min(520, Math.max(320, innerWidth - 40));

/** A drawing of its own coordinates that scales with its place; `label` is read aloud. */
export function drawing(width, height, label, ...children) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "drawing", role: "img", "aria-label": label }, ...children);
}

export const byId = (id) => document.getElementById(id);

/** The function, called once the calls have paused for `wait` milliseconds. */
export function debounced(run, wait) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...values), wait);
  };
}
