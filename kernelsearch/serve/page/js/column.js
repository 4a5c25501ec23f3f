// One list: its head with the method, its measures, its options, its hits.

import { controls } from "./controls.js";
import { el } from "./dom.js";
import { hitNode } from "./hit.js";
import { measuresNode } from "./measures.js";
import { failureNode } from "./notice.js";
import { primary } from "./ranges.js";

const LOADING = 6; // grey rows while a list is made for the first time

/**
 * A column of the board. `place` 0 is the first stage. `actions`: open(docid), emphasise(docid), choose(method), remove(),
 * option(name, value), reset(), retry().
 */
export class Column {
  constructor(place, actions) {
    Object.assign(this, { place, actions, shown: null });
    this.title = el("div", { class: "column-title" });
    this.summary = el("p", { class: "summary" });
    this.measures = el("div", { class: "measures-place", "aria-live": "polite" });
    this.settings = el("div", { class: "settings" });
    this.note = el("div", { class: "note-place" });
    this.list = el("ol", { class: "hits", id: `list-${place}`, dataset: { column: String(place) } });
    this.node = el("section", { class: "column", id: `column-${place}`, dataset: { column: String(place) } },
      el("header", { class: "column-head" }, this.title, this.summary, this.measures), this.settings,
      el("div", { class: "column-list" }, this.note, this.list));
  }

  /** The head and the options of a method; rebuilt only when the method changes, so that a drag of a slider goes on. */
  describe(name, summary, options, values, choices) {
    this.node.setAttribute("aria-label", name);
    this.summary.textContent = this.summary.title = summary;
    this.title.replaceChildren(...(this.place === 0 ? [el("h2", {}, name)] : this.chooser(name, choices)));
    const first = this.place === 0 ? ["k1", "b"] : primary(name, options);
    this.settings.replaceChildren(controls(options, first, values, (option, value) => {
      this.actions.option(option, value);
      this.reset.hidden = false;
    }), this.reset = el("button", { type: "button", class: "plain reset", title: "Back to the defaults", hidden: !Object.keys(values).length, onclick: this.actions.reset }, "Reset"));
  }

  chooser(name, choices) {
    const select = el("select", { class: "method", "aria-label": "Method", onchange: () => this.actions.choose(select.value) },
      choices.map((item) => el("option", { value: item.name, selected: item.name === name, disabled: !item.ready, title: item.why ?? item.summary },
        item.ready ? item.name : `${item.name} (not ready)`)));
    return [el("h2", {}, select), el("button", { type: "button", class: "icon", "aria-label": `Remove ${name}`, title: `Remove ${name}`, onclick: this.actions.remove }, "×")];
  }

  loading() {
    this.node.setAttribute("aria-busy", "true");
    if (this.shown === null) {
      this.note.replaceChildren();
      this.list.replaceChildren(...Array.from({ length: LOADING }, () => el("li", { class: "waiting", "aria-hidden": "true" })));
    }
  }

  /** A list; `base` holds the first stage's measures, null in the first stage. */
  show(result, base) {
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.docid : null;
    this.shown = result;
    this.node.removeAttribute("aria-busy");
    this.measure(base);
    const name = this.node.getAttribute("aria-label");
    this.note.replaceChildren(...(result.fallback ? [el("p", { class: "fallback" }, `${name} leaves this list as it is: ${result.fallback}.`)] : []));
    this.list.replaceChildren(...(result.hits.length
      ? result.hits.map((hit) => hitNode(hit, result.words, this.actions))
      : [el("li", { class: "nothing" }, this.helpNothing?.() ?? "No document matches.")]));
    const buttons = [...this.list.querySelectorAll(".hit")];
    const again = buttons.find((button) => button.dataset.docid === focused);
    if (buttons.length) (again ?? buttons[0]).tabIndex = 0;
    again?.focus({ preventScroll: true });
  }

  measure(base) {
    const node = this.shown && measuresNode(this.shown.measures, base);
    this.measures.replaceChildren(...(node ? [node] : []));
  }

  fail(problem) {
    this.shown = null;
    this.node.removeAttribute("aria-busy");
    this.measures.replaceChildren();
    this.list.replaceChildren();
    this.note.replaceChildren(failureNode(problem, this.actions.retry));
  }

  empty() {
    this.shown = null;
    this.node.removeAttribute("aria-busy");
    for (const place of [this.list, this.note, this.measures]) place.replaceChildren();
  }

  /** Marks the document that is open in the panel. */
  mark(docid) {
    for (const button of this.list.querySelectorAll(".hit")) button.setAttribute("aria-current", String(button.dataset.docid === docid));
  }
}
