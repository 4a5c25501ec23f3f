// klsa: documents in the first two latent dimensions, and the query's way through them as z grows.

import { svg } from "../dom.js";
import { fitted, names, plane } from "../scatter.js";

export function klsaPicture({ notes, docid }, { open, title, word }) {
  const map = notes.map;
  if (!map) return null;
  const scale = fitted([...map.background, ...map.documents, ...map.path].map((one) => (Array.isArray(one) ? one : [one.x, one.y])));
  const background = map.background.map(([x, y]) => svg("circle", { cx: scale.x(x), cy: scale.y(y), r: 1.6, class: "faint" }));
  const last = (one) => Number(one.docid === docid); // the chosen one lies over the others
  const shown = [...map.documents].sort((a, b) => last(a) - last(b)).map((one) => ({ ...one, x: scale.x(one.x), y: scale.y(one.y), radius: one.docid === docid ? 6 : 4 }));
  const dots = shown.map((one) => svg("circle", {
    cx: one.x, cy: one.y, r: one.radius, class: one.docid === docid ? "chosen" : one.rank <= 10 ? "listed" : "lower",
    dataset: { docid: one.docid }, onclick: () => open(one.docid),
  }, svg("title", {}, `${title(one.docid)}, rank ${one.rank}`)));
  const steps = map.path.map((one) => ({ ...one, x: scale.x(one.x), y: scale.y(one.y) }));
  const way = [
    svg("polyline", { points: steps.map((one) => `${one.x},${one.y}`).join(" "), class: "way" }),
    steps.map((one) => svg("circle", { cx: one.x, cy: one.y, r: one.z === map.z ? 6 : 2.6, class: one.z === map.z ? "query here" : "query" },
      svg("title", {}, `the query's place with ${one.z} neighbours`))),
  ];
  const marked = [
    ...shown.filter((one) => one.docid === docid).map((one) => ({ ...one, name: title(one.docid), class: "strong" })),
    ...steps.filter((one) => one.z === map.z).map((one) => ({ ...one, radius: 6, name: "query", class: "strong" })),
    ...shown.filter((one) => one.docid !== docid && one.rank <= 10).map((one) => ({ ...one, name: title(one.docid) })),
  ];
  const axes = map.axes.map((terms, place) => `dimension ${place + 1}: ${terms.map(word).join(", ")}`);
  return {
    title: "In the latent space",
    note: "Grey: a sample of the collection. Blue: the list. The line is the query's place, the weighted mean of its best documents, as more of them count.",
    node: plane(scale, axes, "Documents and the query in the first two latent dimensions", background, way, dots, names(marked)),
  };
}
