// Contributions as bars to both sides of zero, level within level; the values of a level sum to the one above.

import { el, svg } from "./dom.js";
import { number, signed } from "./format.js";

const SHOWN = 12;

const asTheyAre = { label: (part) => part.label, detail: (part) => part.detail };

/** The list of an explanation's contributions, and their sum; `reading` gives the texts of labels and details. */
export function contributionBars(explanation, reading = asTheyAre) {
  return el("div", { class: "bars" },
    level(explanation.contributions, true, reading),
    el("p", { class: "sum" }, el("span", {}, "Sum, the score"), el("strong", {}, number(explanation.score, 4))));
}

function level(parts, outermost, reading) {
  const low = Math.min(0, ...parts.map((part) => part.value));
  const high = Math.max(0, ...parts.map((part) => part.value));
  const list = el("ul", { class: outermost ? "level outermost" : "level" });
  const row = (part) => el("li", {}, part.parts?.length ? foldable(part, low, high, reading) : line(part, low, high, "div", reading));
  list.append(...parts.slice(0, SHOWN).map(row));
  if (parts.length > SHOWN) list.append(remainder(list, parts.slice(SHOWN), row, low, high));
  return list;
}

/** A `details` element whose inner bars are drawn when it is first opened. */
function foldable(part, low, high, reading) {
  const fold = el("details", {}, line(part, low, high, "summary", reading));
  fold.addEventListener("toggle", () => {
    if (fold.open && fold.childElementCount === 1) fold.append(level(part.parts, false, reading));
  });
  return fold;
}

function line(part, low, high, tag, reading = asTheyAre) {
  return el(tag, { class: "bar-line" },
    el("span", { class: "bar-label" }, reading.label(part), part.detail ? el("small", {}, reading.detail(part)) : null),
    bar(part.value, low, high),
    el("span", { class: "bar-value" }, signed(part.value)));
}

function bar(value, low, high) {
  const span = high - low || 1;
  const zero = (-low / span) * 100;
  const width = (Math.abs(value) / span) * 100;
  return svg("svg", { class: "bar", "aria-hidden": "true", preserveAspectRatio: "none" },
    svg("rect", { x: "0", y: "0", width: "100%", height: "100%", class: "bar-track" }),
    svg("rect", {
      x: `${value < 0 ? zero - width : zero}%`, y: "0", width: `${width}%`, height: "100%",
      class: value < 0 ? "bar-down" : "bar-up",
    }),
    svg("line", { x1: `${zero}%`, x2: `${zero}%`, y1: "0", y2: "100%", class: "bar-zero" }));
}

function remainder(list, rest, row, low, high) {
  const total = rest.reduce((sum, part) => sum + part.value, 0);
  const item = el("li", {});
  const more = el("button", { type: "button", class: "plain", onclick: () => {
    list.append(...rest.map(row));
    item.remove();
  } }, `Show ${rest.length} more`);
  item.append(line({ label: `${rest.length} more together`, value: total }, low, high, "div"), more);
  return item;
}
