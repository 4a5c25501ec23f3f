// rbm25: the logged queries most similar to this one, and the documents that their users clicked or did not click.

import { el, svg } from "../dom.js";
import { likeness, number, plural, signed } from "../format.js";

const SHOWN_DOCUMENTS = 8;

export function rbm25Picture({ contributions, notes }, { open, search, title }) {
  const near = notes["similar queries"];
  if (!near?.length) return null;
  const most = Math.max(...near.map((item) => item.kernel), 1e-12);
  const rows = near.map((item) => el("tr", {},
    el("td", {}, el("button", { type: "button", class: "link", onclick: () => search(item.query) }, item.query)),
    el("td", { class: "meter" }, meter(item.kernel / most)),
    ["kernel", "by clicks", "by text"].map((name) => el("td", {}, likeness(item[name])))));
  const head = ["similar query", "", "similarity", "by clicks", "by text"].map((name) => el("th", { scope: "col" }, name));
  return {
    title: "Similar queries in the click log",
    note: `${plural(notes.pairs, "preference pair")} of these queries were learned from; BM25 has weight ${number(notes["weight of BM25"])}.`,
    node: el("div", {}, el("div", { class: "scroll" }, el("table", { class: "figures" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows))),
      clickedDocuments(contributions, new Set(notes.clicked), open, title)),
  };
}

const meter = (share) => svg("svg", { class: "bar", "aria-hidden": "true" },
  svg("rect", { width: `${Math.max(share, 0) * 100}%`, height: "100%", class: "bar-up" }));

/** Documents with the largest contributions, summed over all similar queries. */
function clickedDocuments(contributions, clicked, open, title) {
  const pulls = new Map();
  for (const query of contributions) {
    for (const part of query.parts ?? []) {
      const [{ document }] = part.label_pieces;
      pulls.set(document, (pulls.get(document) ?? 0) + part.value);
    }
  }
  const strongest = [...pulls].sort((a, b) => Math.abs(b[1]) - Math.abs(a[1])).slice(0, SHOWN_DOCUMENTS);
  if (!strongest.length) return null;
  return el("div", {}, el("h5", {}, "Their documents with the largest contributions"),
    el("ul", { class: "chips" }, strongest.map(([docid, pull]) => el("li", {},
      el("button", { type: "button", class: "chip", onclick: () => open(docid) }, title(docid),
        el("small", {}, `${clicked.has(docid) ? "clicked" : "not clicked"}, ${signed(pull, 2)}`))))));
}
