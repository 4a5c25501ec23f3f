// The page before the first query: an introduction and example queries.

import { suggestions } from "./api.js";
import { el } from "./dom.js";
import { plural } from "./format.js";

const SHOWN = 8;

export function welcome(app) {
  const chip = (text, act) => el("li", {}, el("button", { type: "button", class: "chip", onclick: act }, text));
  const judged = spread(app.toolbar.topics, SHOWN).map((item) => chip(item.text, () => app.search(item.text, item.topic)));
  const asked = el("ul", { class: "chips" });
  const asking = el("section", { hidden: true }, el("h2", {}, "Often asked"), asked);
  suggestions(app.state.index, "").then((logged) => {
    asked.replaceChildren(...logged.slice(0, SHOWN).map((item) => chip(item.query, () => app.search(item.query))));
    asking.hidden = !logged.length;
  }, () => asking.remove()); // no suggestions, no section
  return el("div", { class: "welcome" },
    el("h1", {}, "Compare what each method does to a ranked list"),
    el("p", {}, `Search ${plural(app.index.documents, "document")} of ${app.index.name}. The first stage's list is on the left; lines show which documents rise and fall in the methods' lists beside it. Open a document to see why.`),
    judged.length ? el("section", {}, el("h2", {}, "Judged topics, with live measures"), el("ul", { class: "chips" }, judged)) : null,
    asking);
}

/** Some of the list, evenly from its beginning to its end. */
const spread = (list, count) => (list.length <= count ? list : Array.from({ length: count }, (_, n) => list[Math.floor((n * list.length) / count)]));
