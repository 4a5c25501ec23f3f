// fusion and auto: each feature's share of this document's score beside the share that it has overall.

import { PICTURE_WIDTH as WIDTH, drawing, svg } from "../dom.js";
import { shortened } from "../format.js";

const ROW = 26;
const NAMES = 215;
const TOP = 6;

export function fusionPicture({ contributions, notes }, { label }) {
  const overall = notes.importance;
  if (!overall) return null;
  const total = contributions.reduce((sum, part) => sum + Math.abs(part.value), 0) || 1;
  const rows = contributions.map((part) => ({ ...part, here: Math.abs(part.value) / total, usual: overall[part.label] ?? 0 }));
  const most = Math.max(...rows.flatMap((row) => [row.here, row.usual]), 1e-12);
  const length = (share) => (share / most) * (WIDTH - NAMES - 75);
  const percent = (share) => `${Math.round(100 * share)}%`;
  const marks = rows.map((row, place) => {
    const y = TOP + place * ROW;
    return [
      svg("text", { x: NAMES - 8, y: y + 14, "text-anchor": "end", class: "name" }, shortened(label(row), 34), svg("title", {}, `${row.label}: ${row.detail}`)),
      svg("rect", { x: NAMES, y: y + 2, width: length(row.here), height: 10, rx: 2, class: row.value < 0 ? "bar-down" : "bar-up" }),
      svg("rect", { x: NAMES, y: y + 13, width: length(row.usual), height: 6, rx: 2, class: "bar-quiet" }),
      svg("text", { x: NAMES + Math.max(length(row.here), length(row.usual)) + 6, y: y + 14, class: "axis-name" }, `${percent(row.here)} · ${percent(row.usual)}`),
    ];
  });
  return {
    title: "Features, here and overall",
    note: "Blue: the feature's share of this document's score (rust where it lowers it). Grey: its share overall.",
    node: drawing(WIDTH, TOP + rows.length * ROW, "Each feature's share of this score, and overall", marks),
  };
}
