// Which picture belongs to which method. A method that has none here gets the service's own drawing.

import { fusionPicture } from "./fusion.js";
import { klsaPicture } from "./klsa.js";
import { mslmPicture } from "./mslm.js";
import { pertPicture } from "./pert.js";
import { rbm25Picture } from "./rbm25.js";

const PICTURES = {
  klsa: klsaPicture,
  "klsa-paper": klsaPicture,
  mslm: mslmPicture,
  pert: pertPicture,
  rbm25: rbm25Picture,
  "rbm25-paper": rbm25Picture,
  pairwise: rbm25Picture,
  fusion: fusionPicture,
  auto: fusionPicture,
};

export const drawnHere = (method) => method in PICTURES;

/** { title, note, node }, or null where the record has nothing to draw. `actions` are open(docid), search(text), title(docid), word(term) and label(part). */
export function picture(explanation, actions) {
  return PICTURES[explanation.method]?.(explanation, actions) ?? null;
}
