// mslm: where in the text each level matched, and which words of the text contributed to which of the query's words.

import { PICTURE_WIDTH as WIDTH, drawing, el, svg } from "../dom.js";
import { number, shortened } from "../format.js";

const LEFT = 92;
const ROW = 17;

/** The first contribution is the first stage's; the others are the levels' in their order. */
export function mslmPicture({ notes, contributions }, { word, label }) {
  const text = notes.text?.map(word);
  if (!notes.text || !notes.levels?.some((level) => level.attention)) return null;
  return {
    title: "The pyramid over the text",
    note: "The text as it is indexed, darker where the level matched. Below, which positions filled which word.",
    node: el("div", { class: "pyramid" }, notes.levels.map((level, place) => levelPicture(level, text, `${notes.levels.length > 1 ? "" : "Level: "}${label(contributions[place + 1])}`, word))),
  };
}

function levelPicture(level, text, name, asWord) {
  const most = Math.max(...level.attention, 1e-12);
  const words = text.map((word, place) => {
    const heat = Math.round((level.attention[place] / most) * 9);
    return [el("span", { class: `heat-${heat}`, title: `position ${place + 1}, attention ${number(level.attention[place])}` }, word), " "];
  });
  return el("section", {},
    el("h5", {}, name, el("small", {}, `similarity ${number(level.similarity)}`)),
    el("p", { class: "heat-text" }, words),
    heatMap(level, text, asWord));
}

function heatMap(level, text, asWord) {
  const rows = level.words.filter((word) => word.lent);
  if (!rows.length) return null;
  const step = (WIDTH - LEFT) / text.length;
  const most = Math.max(...rows.flatMap((word) => word.lent), 1e-12);
  const cells = rows.map((word, row) => word.lent.map((value, place) => {
    const heat = Math.round((value / most) * 9);
    return heat > 0 && svg("rect", { x: LEFT + place * step, y: row * ROW + 1, width: Math.max(step, 1), height: ROW - 2, class: `cell-${heat}` },
      svg("title", {}, `${asWord(word.word)} from ${text[place]} at position ${place + 1}: ${number(value / most)} of the most`));
  }));
  const tracks = rows.map((word, row) => [
    svg("rect", { x: LEFT, y: row * ROW + 1, width: WIDTH - LEFT, height: ROW - 2, class: "bar-track" }),
    svg("text", { x: LEFT - 8, y: row * ROW + 13, "text-anchor": "end", class: `name ${word.own ? "strong" : ""}` },
      shortened(asWord(word.word), 14), svg("title", {}, word.own ? "a query word" : `related to ${asWord(word.for)}`)),
  ]);
  const foot = rows.length * ROW + 14;
  return drawing(WIDTH, foot + 4, `Positions that filled the words of ${level.level}`, tracks, cells,
    svg("text", { x: LEFT, y: foot, class: "axis-name" }, "first word"),
    svg("text", { x: WIDTH, y: foot, "text-anchor": "end", class: "axis-name" }, `word ${text.length}`));
}
