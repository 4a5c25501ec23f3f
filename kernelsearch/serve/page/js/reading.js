// Explanations in a searcher's words: titles for documents, words for terms, meanings for symbols and features.

import { number, plural, shortened } from "./format.js";

/** The document's length and the model's parameters, in one sentence. */
export function firstStageNote({ notes }) {
  if (!notes.length) return "";
  const parameters = Object.entries(notes.model ?? {}).map(([name, value]) => `${name} ${number(value)}`).join(", ");
  return `The document has ${plural(Math.round(notes.length), "term")}, the average is ${number(notes.average_length)}. `
    + `A term adds more when it is repeated, rare in the collection, and in a short document (${parameters}).`;
}

/** Reads the answer of /explain: `titles` and `words` came with it, meanings are in its references. */
export class Reading {
  constructor({ titles = {}, words = {} }) {
    // Maps, not objects: "constructor" is a property of every object, and may be a term or a docid.
    [this.titles, this.words] = [titles, words].map((texts) => new Map(Object.entries(texts)));
  }

  title = (docid) => this.titles.get(docid) ?? docid;

  word = (term) => this.words.get(term) ?? term;

  label = (part) => this.text(part.label_pieces);

  detail = (part) => this.text(part.detail_pieces);

  text = (pieces) => pieces.map((piece) => this.piece(piece, pieces.length > 1)).join("");

  piece(piece, quoted) {
    if (typeof piece === "string") return piece;
    if ("term" in piece) return this.word(piece.term);
    if (!("document" in piece)) return piece.meaning ?? piece.feature ?? piece.symbol;
    const title = shortened(this.title(piece.document), 60);
    return quoted && this.titles.has(piece.document) ? `“${title}”` : title;
  }
}
