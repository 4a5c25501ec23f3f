// klsa: documents in the first two latent dimensions, and the query's position among them as z grows.

import { svg } from "../dom.js";
import { fitted, names, plane } from "../scatter.js";

export function klsaPicture({ notes, docid }, { open, title, word }) {
  const map = notes.map;
  if (!map) return null;
  const scale = fitted([...map.background, ...map.documents, ...map.path].map((item) => (Array.isArray(item) ? item : [item.x, item.y])));
  const background = map.background.map(([x, y]) => svg("circle", { cx: scale.x(x), cy: scale.y(y), r: 1.6, class: "faint" }));
  const last = (item) => Number(item.docid === docid); // the chosen one lies over the others
  const shown = [...map.documents].sort((a, b) => last(a) - last(b)).map((item) => ({ ...item, x: scale.x(item.x), y: scale.y(item.y), radius: item.docid === docid ? 6 : 4 }));
  const dots = shown.map((item) => svg("circle", {
    cx: item.x, cy: item.y, r: item.radius, class: item.docid === docid ? "chosen" : item.rank <= 10 ? "listed" : "lower",
    dataset: { docid: item.docid }, onclick: () => open(item.docid),
  }, svg("title", {}, `${title(item.docid)}, rank ${item.rank}`)));
  const steps = map.path.map((item) => ({ ...item, x: scale.x(item.x), y: scale.y(item.y) }));
  const way = [
    svg("polyline", { points: steps.map((item) => `${item.x},${item.y}`).join(" "), class: "way" }),
    steps.map((item) => svg("circle", { cx: item.x, cy: item.y, r: item.z === map.z ? 6 : 2.6, class: item.z === map.z ? "query here" : "query" },
      svg("title", {}, `the query's place with ${item.z} neighbours`))),
  ];
  const marked = [
    ...shown.filter((item) => item.docid === docid).map((item) => ({ ...item, name: title(item.docid), class: "strong" })),
    ...steps.filter((item) => item.z === map.z).map((item) => ({ ...item, radius: 6, name: "query", class: "strong" })),
    ...shown.filter((item) => item.docid !== docid && item.rank <= 10).map((item) => ({ ...item, name: title(item.docid) })),
  ];
  const axes = map.axes.map((terms, place) => `dimension ${place + 1}: ${terms.map(({ term, opposite }) => `${opposite ? "−" : ""}${word(term)}`).join(", ")}`);
  return {
    title: "In the latent space",
    note: "Grey: a sample of the collection. Blue: the list. The line is the query's place, the weighted mean of its best documents, as more of them count.",
    node: plane(scale, axes, "Documents and the query in the first two latent dimensions", background, way, dots, names(marked)),
  };
}
