// One document of a list: a button with its rank, how far it moved, its judgement, its title and a piece of its text.

import { el } from "./dom.js";
import { number } from "./format.js";
import { marked, snippet } from "./highlight.js";

/** How a document came to its rank, as a sign and as words. */
export function movement(hit) {
  if (hit.before === undefined) return null;
  if (hit.before === null) return { kind: "came", sign: "new", words: "not in the first stage's list" };
  const by = hit.before - hit.rank;
  if (by === 0) return { kind: "stayed", sign: "=", words: "same rank as in the first stage" };
  return by > 0
    ? { kind: "rose", sign: `▲${by}`, words: `up ${by} from rank ${hit.before}` }
    : { kind: "fell", sign: `▼${-by}`, words: `down ${-by} from rank ${hit.before}` };
}

/** A judgement: relevant with its grade, judged not relevant, or null where nobody judged. */
export function judgement(grade) {
  if (grade === null || grade === undefined) return null;
  return grade > 0
    ? el("span", { class: "judged relevant", title: `judged relevant, grade ${grade}` }, "✓", grade > 1 ? String(grade) : null, el("span", { class: "hidden" }, " relevant"))
    : el("span", { class: "judged not", title: "judged not relevant" }, "✗", el("span", { class: "hidden" }, " not relevant"));
}

export function hitNode(hit, words, actions) {
  const moved = movement(hit);
  const title = hit.title || hit.docid;
  const text = hit.text && hit.title && hit.text.startsWith(hit.title) ? hit.text.slice(hit.title.length) : hit.text ?? "";
  return el("li", {},
    el("button", {
      type: "button", class: "hit", tabindex: "-1", dataset: { docid: hit.docid },
      onclick: () => actions.open(hit.docid),
      onmouseenter: () => actions.emphasise(hit.docid), onmouseleave: () => actions.emphasise(null),
      onfocus: () => actions.emphasise(hit.docid), onblur: () => actions.emphasise(null),
    },
    el("span", { class: "rank" }, String(hit.rank), moved ? el("span", { class: `moved ${moved.kind}`, title: moved.words }, moved.sign, el("span", { class: "hidden" }, ` ${moved.words}`)) : null),
    el("span", { class: "hit-body" },
      el("span", { class: "hit-text" },
        el("span", { class: "hit-title" }, judgement(hit.grade), marked(title, words)),
        el("span", { class: "snippet" }, marked(snippet(text, words), words))),
      el("span", { class: "hit-meta" }, el("span", {}, hit.docid), el("span", {}, number(hit.score, 4))))));
}
