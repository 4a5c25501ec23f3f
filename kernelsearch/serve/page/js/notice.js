// Error messages, shown where the error occurred.

import { el } from "./dom.js";

const HEADS = {
  offline: "No connection",
  busy: "Busy",
  slow: "Too slow",
  locked: "Locked",
  refused: "Not possible",
  broken: "Server error",
};

/** A box with the reason of a failure, and a button to try again where that can help. */
export function failureNode(problem, retry) {
  const kind = problem.kind ?? "broken";
  return el("div", { class: `notice ${kind}`, role: "alert" },
    el("strong", {}, HEADS[kind] ?? HEADS.broken), el("p", {}, problem.message),
    retry && kind !== "refused" ? el("button", { type: "button", onclick: retry }, "Try again") : null);
}
