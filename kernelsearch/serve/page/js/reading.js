// Explanations in a searcher's words: titles for docids, words for stems, meanings for symbols and names of features.

import { number, plural, shortened } from "./format.js";

// Maps, not objects: "constructor" is a property of every object, and may be a term or a docid.
const LABELS = new Map([
  ["like the best documents", "likeness to the best documents"],
  ["own score", "its own match with the query"],
  ["mean of the candidates", "average of the list, subtracted"],
]);

const DETAILS = [
  [/λ (\S+), z auto/, "share of the latent score $1, neighbours weighted by their relevance"],
  [/λ (\S+), z (\d+)/, "share of the latent score $1, $2 neighbours"],
  [/\(1 - λ\) × k_q (\S+) of the fitted kernel/, "the rest of the score; $1 by the fitted kernel"],
  [/\bk_q (\S+) of the fitted kernel/, "score $1 by the fitted kernel"],
  [/\(1 - λ\) × k_q (\S+)/, "the rest of the score; $1 in the first stage"],
  [/\bk_q (\S+)/, "score $1 in the first stage"],
  [/\bk_Q (\S+), clicks (\S+), text (\S+)/, "similarity $1: $2 by clicks, $3 by text"],
];

// Details of the first stage's terms: tf 2, in 15 of 364 documents, idf 3.1528, length 40 (average 38.1), weight 0.5
const TERM = /^tf (\d+), in (\d+) of (\d+) documents(?:, idf ([\d.]+))?(?:, length \S+ \(average \S+\))?(?:, weight (\S+))?$/;

function termDetail(detail) {
  const found = detail.match(TERM);
  if (!found) return detail;
  const [, frequency, containing, all, idf, weight] = found;
  return [
    frequency === "0" ? "not here" : `${plural(Number(frequency), "time")} here (tf)`,
    `in ${Number(containing).toLocaleString("en")} of ${plural(Number(all), "document")}${idf ? `: idf ${number(Number(idf))}` : ""}`,
    weight ? `weight ${number(Number(weight))}` : null,
  ].filter(Boolean).join("; ");
}

/** The document's length and the model's parameters, in one sentence. */
export function firstStageNote({ notes }) {
  if (!notes.length) return "";
  const parameters = Object.entries(notes.model ?? {}).map(([name, value]) => `${name} ${number(value)}`).join(", ");
  return `The document has ${plural(Math.round(notes.length), "term")}, the average is ${number(notes.average_length)}. `
    + `A term adds more when it is repeated, rare in the collection, and in a short document (${parameters}).`;
}

/** Reads the answer of /explain: `titles`, `words` and the `meanings` of features came with it. */
export class Reading {
  constructor({ titles = {}, words = {}, meanings = {}, method, explanation }) {
    [this.titles, this.words, this.meanings] = [titles, words, meanings].map((texts) => new Map(Object.entries(texts)));
    Object.assign(this, { method: explanation.method, byTerm: method === "first stage" });
  }

  title = (docid) => this.titles.get(docid) ?? docid;

  /** A term, perhaps with a minus sign, as a word. */
  word = (term) => (term.startsWith("-") ? `−${this.word(term.slice(1))}` : this.words.get(term) ?? term);

  label = (label) => {
    if (this.byTerm) return this.word(label);
    if (["auto", "fusion"].includes(this.method)) return this.meanings.get(label) ?? label;
    if (LABELS.has(label)) return LABELS.get(label);
    if (this.method === "rbm25") {
      if (label.startsWith("BM25, weight")) return "its own match with the query (BM25)";
      const query = label.match(/^'(.+)'$/)?.[1];
      if (query) return `clicks of those who searched “${query}”`;
    }
    const through = label.match(/^through (.+)$/)?.[1];
    if (through) return through === "itself" ? label : `through “${shortened(this.title(through), 60)}”`;
    const scale = label.match(/^scale (\S+), words (\S+)$/);
    if (scale) return scale[1] === "inf" ? `the whole text, related words at scale ${scale[2]}` : `passages at scale ${scale[1]}, related words at scale ${scale[2]}`;
    const group = label.match(/^(added words of group \d+ )\((.+)\)$/);
    if (group) return `${group[1]}(${this.word(group[2])})`;
    return this.titles.get(label) ?? this.word(label);
  };

  detail = (detail, label) => {
    if (this.byTerm) return termDetail(detail);
    if (this.method === "pert") return detail.replace(/, from (.+)$/, (_, docids) => `, from ${docids.split(", ").map((docid) => shortened(this.title(docid), 40)).join("; ")}`);
    if (/^dimension \d+$/.test(label)) return detail.split(", ").map(this.word).join(", ");
    if (this.method === "mslm") return detail.replace(/(?<=: |from |, |^)([\p{L}\p{N} ]+)/gu, (terms) => (/^(positions|a query word|related)/.test(terms) ? terms : terms.split(" ").map(this.word).join(" ")));
    return DETAILS.reduce((text, [pattern, words]) => text.replace(pattern, words), detail);
  };
}
