// Lines between neighbouring lists: which documents rise, fall, enter and leave.

import { svg } from "./dom.js";

/** Redraws the lines over `board` between its visible lists. */
export function drawLines(overlay, board) {
  const frame = board.getBoundingClientRect();
  for (const side of ["width", "height"]) overlay.setAttribute(side, "0"); // else it would hold the board at its last size
  overlay.setAttribute("width", String(board.scrollWidth));
  overlay.setAttribute("height", String(board.scrollHeight));
  const place = (rectangle) => ({
    left: rectangle.left - frame.left + board.scrollLeft,
    right: rectangle.right - frame.left + board.scrollLeft,
    y: (rectangle.top + rectangle.bottom) / 2 - frame.top + board.scrollTop,
  });
  const lists = [...board.querySelectorAll(".column")].filter((column) => column.offsetParent !== null).map((column) =>
    new Map([...column.querySelectorAll(".hit")].map((hit, rank) => [hit.dataset.docid, { ...place(hit.getBoundingClientRect()), rank }])));
  const paths = [];
  for (let n = 1; n < lists.length; n++) paths.push(...between(lists[n - 1], lists[n]));
  overlay.replaceChildren(...paths);
}

function between(left, right) {
  if (!left.size || !right.size) return [];
  const marks = [];
  for (const [docid, end] of right) {
    const start = left.get(docid);
    if (!start) {
      marks.push(stub(docid, end.left - 9, end.y, "came"));
      continue;
    }
    const kind = end.rank < start.rank ? "rose" : end.rank > start.rank ? "fell" : "stayed";
    const middle = (start.right + end.left) / 2;
    const path = `M${start.right + 3},${start.y} C${middle},${start.y} ${middle},${end.y} ${end.left - 3},${end.y}`;
    marks.push(svg("path", { d: path, class: kind, dataset: { docid } }));
  }
  for (const [docid, start] of left) {
    if (!right.has(docid)) marks.push(stub(docid, start.right + 9, start.y, "left"));
  }
  // Lines of documents that kept their rank are drawn first, below the others.
  return marks.sort((a, b) => a.classList.contains("stayed") < b.classList.contains("stayed") ? 1 : -1);
}

const stub = (docid, x, y, kind) => svg("circle", { cx: x, cy: y, r: 2.6, class: kind, dataset: { docid } });

/** Highlights the lines and hits of one document, or of none. */
export function emphasise(board, overlay, docid) {
  overlay.classList.toggle("one", Boolean(docid));
  for (const node of [...overlay.children, ...board.querySelectorAll(".hit")]) {
    node.classList.toggle("lit", Boolean(docid) && node.dataset.docid === docid);
  }
}
