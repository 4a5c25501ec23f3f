// The documents that a query was expanded from, with their weights.

import { el, svg } from "../dom.js";
import { number } from "../format.js";

const SHOWN = 8;

/** { title, note, node }, or null where the explanation has no feedback documents. `actions` are open(docid) and title(docid). */
export function feedbackPicture({ notes }, { open, title }) {
  const documents = notes.feedback?.documents ?? [];
  if (!documents.length) return null;
  const most = Math.max(...documents.map((item) => item.weight), 1e-12);
  const rows = documents.slice(0, SHOWN).map((item) => el("li", { class: "bar-line" },
    el("span", { class: "bar-label" }, el("button", { type: "button", class: "link", onclick: () => open(item.docid) }, title(item.docid)),
      notes.evidence ? el("small", {}, ` likeness by words ${number(item.words)}, by vectors ${number(item.vectors)}`) : null),
    svg("svg", { class: "bar", "aria-hidden": "true" }, svg("rect", { width: "100%", height: "100%", class: "bar-track" }),
      svg("rect", { width: `${(100 * item.weight) / most}%`, height: "100%", class: "bar-up" })),
    el("span", { class: "bar-value" }, `${Math.round(100 * item.weight)}%`)));
  return {
    title: "Expanded from these documents",
    note: `Shares of the documents that are taken as relevant: together they count as much as ${number(notes.feedback.effective)} equal ones.`
      + (notes.evidence ? ` Of the score, ${Object.entries(notes.evidence).map(([kind, value]) => `${number(value)} came from ${kind}`).join(", ")}.` : ""),
    node: el("ul", { class: "feedback" }, rows),
  };
}
