// AP and nDCG of a list beside what the first stage has.

import { el } from "./dom.js";
import { difference, measure } from "./format.js";

/** Figures of one list; `base` are those of the first stage, null for the first stage itself. */
export function measuresNode(measures, base) {
  if (!measures) return null;
  return el("dl", { class: "measures" }, Object.entries(measures).map(([name, value]) => {
    const change = base && Number.isFinite(base[name]) ? value - base[name] : null;
    const kind = change === null || Math.abs(change) < 0.0005 ? "stayed" : change > 0 ? "rose" : "fell";
    return el("div", { dataset: { measure: name } }, el("dt", {}, name), el("dd", {}, measure(value),
      change === null ? null : [" ", el("span", { class: `moved ${kind}` }, kind === "stayed" ? "=" : difference(change))]));
  }));
}
