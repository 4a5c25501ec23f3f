// pert: the expansion's words in perturbation coordinates, by group; squares are the query's own, size is weight.

import { svg } from "../dom.js";
import { number } from "../format.js";
import { fitted, names, plane } from "../scatter.js";

export function pertPicture({ notes }, { word: asWord }) {
  const words = (notes.words ?? []).filter((word) => Number.isFinite(word.x) && Number.isFinite(word.y));
  if (!words.length || !notes.axes) return null;
  const scale = fitted(words.map((word) => [word.x, word.y]));
  const most = Math.max(...words.map((word) => word.weight)) || 1;
  const shown = words.map((word) => ({ ...word, x: scale.x(word.x), y: scale.y(word.y), radius: 3 + 9 * Math.sqrt(word.weight / most) }));
  const dots = shown.map((word) => {
    const style = `group-${((word.group - 1) % 6) + 1}${word.query_term ? " own" : ""}`;
    const title = svg("title", {}, `${asWord(word.word)}: weight ${number(word.weight)}, relevance ${number(word.relevance)}, risk ${number(word.risk)}, group ${word.group}`);
    return word.query_term
      ? svg("rect", { x: word.x - word.radius, y: word.y - word.radius, width: 2 * word.radius, height: 2 * word.radius, class: style }, title)
      : svg("circle", { cx: word.x, cy: word.y, r: word.radius, class: style }, title);
  });
  const labels = [...shown].sort((a, b) => b.query_term - a.query_term || b.weight - a.weight)
    .map((word) => ({ ...word, name: asWord(word.word), class: word.query_term ? "strong" : "" }));
  return {
    title: "Expansion words in perturbation coordinates",
    note: "Squares are the query's terms, size is weight, colours are groups: words that react alike when the query is perturbed.",
    node: plane(scale, ["", ""], "Expansion words in perturbation coordinates", dots, names(labels)),
  };
}
