// An empty list: what to try instead.

import { suggestions } from "./api.js";
import { el } from "./dom.js";

const SHOWN = 6;
const PREFIX = 3; // letters of a word that logged queries must begin with to be offered

export function nothingNode(app) {
  const words = [...new Set(app.state.query.split(/\s+/).filter(Boolean))];
  const chip = (text) => el("li", {}, el("button", { type: "button", class: "chip", onclick: () => app.search(text) }, text));
  const near = el("ul", { class: "chips" });
  const logged = el("div", { hidden: true }, el("p", {}, "Others have asked:"), near);
  Promise.all(words.slice(0, 3).map((word) => suggestions(app.state.index, word.slice(0, PREFIX)))).then((lists) => {
    const queries = [...new Set(lists.flat().map((item) => item.query))].slice(0, SHOWN);
    near.replaceChildren(...queries.map(chip));
    logged.hidden = !queries.length;
  }, () => logged.remove()); // no suggestions, no section
  return el("div", { class: "help-nothing" },
    el("p", {}, "No document contains a word of this query."),
    el("ul", { class: "advice" },
      el("li", {}, "Check the spelling, or use other words for the same thing."),
      app.indexes.length > 1 ? el("li", {}, "Choose another index.") : null,
      app.choices().some((item) => item.name === "dense" && item.ready) ? el("li", {}, "Add the method dense, which finds documents without the query's words.") : null),
    words.length > 1 ? el("div", {}, el("p", {}, "Single words:"), el("ul", { class: "chips" }, words.slice(0, SHOWN).map(chip))) : null,
    logged);
}
