// The query's words in a text, marked. The service sends these words, because they depend on the index's analyser.

// As in kernelsearch/api/results.py: words as Lucene's StandardTokenizer bounds them.
const WORD = /[\p{L}\p{N}\p{M}_\u200c\u200d]+(?:(?:['’.:]|(?<=\p{Nd}),(?=\p{Nd}))[\p{L}\p{N}\p{M}_\u200c\u200d]+)*/gu;

/** The text as nodes: plain text, and <mark> around the words (a set, in lower case). */
export function marked(text, words) {
  const nodes = [];
  let end = 0;
  for (const match of text.matchAll(WORD)) {
    if (!words.has(match[0].toLowerCase())) continue;
    if (match.index > end) nodes.push(text.slice(end, match.index));
    const mark = document.createElement("mark");
    mark.textContent = match[0];
    nodes.push(mark);
    end = match.index + match[0].length;
  }
  if (end < text.length) nodes.push(text.slice(end));
  return nodes;
}

/** A piece of about `length` characters that begins shortly before the first of the words. */
export function snippet(text, words, length = 200) {
  const line = text.replace(/\s+/g, " ").trim();
  if (line.length <= length) return line;
  const first = [...line.matchAll(WORD)].find((match) => words.has(match[0].toLowerCase()));
  let start = Math.max(0, (first?.index ?? 0) - 40);
  if (start > 0) start = line.indexOf(" ", start) + 1;
  return (start > 0 ? "…" : "") + line.slice(start, start + length) + (start + length < line.length ? "…" : "");
}
