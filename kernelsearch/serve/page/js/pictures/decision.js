// How far feedback goes for a query: its part of the score beside the match, the certainty and the bound on feedback, and why.

import { contributionBars } from "../bars.js";
import { number } from "../format.js";

const LABELS = {
  match: "match with the query",
  feedback: "feedback",
  certainty: "certainty of the best documents",
  bound: "bound on feedback",
};

/** { title, note, node }, or null where the explanation has no decision. `actions` has title(docid). */
export function decisionPicture({ notes, score }, { title }) {
  if (!notes.decision) return null;
  const contributions = Object.entries(notes.decision.parts).map(([kind, value]) => ({ label: LABELS[kind] ?? kind, value }));
  const { effective, documents } = notes.feedback;
  return {
    title: "How far feedback goes for this query",
    note: `Feedback comes from ${documents.length} documents that count as much as ${number(effective)} equal ones.`
      + (notes.certainty ? ` The first stage gives “${title(notes.certainty.docid)}” a probability of ${number(notes.certainty.probability)} among its best.` : "")
      + (notes.decision.parts.bound ? " Feedback would have put this document too far below its place by match." : ""),
    node: contributionBars({ contributions, score }),
  };
}
