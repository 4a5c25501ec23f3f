// Similar documents, with explanations.

import { similar } from "./api.js";
import { contributionBars } from "./bars.js";
import { el } from "./dom.js";
import { number } from "./format.js";
import { marked, snippet } from "./highlight.js";

/** The list of documents similar to `docid`, each with an explanation that can be unfolded. */
export async function similarNode(index, docid, words, open, signal) {
  const { hits } = await similar(index, docid, null, signal);
  if (!hits.length) return el("p", { class: "nothing" }, "No document of the collection is similar to this one.");
  return el("ol", { class: "similar" }, hits.map((hit) => el("li", {},
    el("button", { type: "button", class: "hit", dataset: { docid: hit.docid }, onclick: () => open(hit) },
      el("span", { class: "rank" }, String(hit.rank)),
      el("span", { class: "hit-body" },
        el("span", { class: "hit-text" },
          el("span", { class: "hit-title" }, marked(hit.title || hit.docid, words)),
          el("span", { class: "snippet" }, marked(snippet(withoutTitle(hit), words, 140), words))),
        el("span", { class: "hit-meta" }, el("span", {}, hit.docid), el("span", {}, number(hit.score))))),
    why(index, docid, hit.docid))));
}

export const withoutTitle = (hit) => (hit.title && hit.text.startsWith(hit.title) ? hit.text.slice(hit.title.length).trim() : hit.text);

function why(index, docid, other) {
  const fold = el("details", {}, el("summary", {}, "Why similar"));
  fold.addEventListener("toggle", async () => {
    if (!fold.open || fold.childElementCount > 1) return;
    const place = el("p", { class: "nothing" }, "Loading…");
    fold.append(place);
    try {
      place.replaceWith(contributionBars((await similar(index, docid, other)).explanation));
    } catch (problem) {
      place.textContent = problem.message;
    }
  });
  return fold;
}
