// The lists side by side (one at a time, with tabs, on narrow screens), the lines between them, and arrow keys.

import { Column } from "./column.js";
import { byId, debounced, el } from "./dom.js";
import { drawLines, emphasise } from "./lines.js";

export class Board {
  /** `app` gives the actions of columns: app.columnActions(place). */
  constructor(app) {
    this.app = app;
    this.node = byId("board");
    this.overlay = byId("lines");
    this.tabs = byId("tabs");
    this.columns = [];
    this.current = 0;
    this.redraw = debounced(() => drawLines(this.overlay, this.node), 30);
    new ResizeObserver(this.redraw).observe(this.node);
    this.node.addEventListener("toggle", this.redraw, true);
    this.node.addEventListener("keydown", (event) => this.key(event));
    this.tabs.addEventListener("keydown", (event) => this.tabKey(event));
  }

  /** Makes as many columns as there are lists. */
  arrange(count) {
    while (this.columns.length > count) this.columns.pop().node.remove();
    while (this.columns.length < count) {
      const column = new Column(this.columns.length, this.app.columnActions(this.columns.length));
      this.columns.push(column);
      this.node.append(column.node);
    }
    this.node.dataset.columns = String(count);
    this.choose(Math.min(this.current, count - 1));
  }

  /** The names on the tabs of narrow screens. */
  name(names) {
    this.tabs.replaceChildren(...names.map((name, place) => el("button", {
      type: "button", role: "tab", id: `tab-${place}`, "aria-controls": `column-${place}`, onclick: () => this.choose(place),
    }, name)));
    this.choose(this.current);
  }

  choose(place) {
    this.current = Math.max(0, place);
    for (const [n, column] of this.columns.entries()) column.node.classList.toggle("current", n === this.current);
    for (const [n, tab] of [...this.tabs.children].entries()) {
      tab.setAttribute("aria-selected", String(n === this.current));
      tab.tabIndex = n === this.current ? 0 : -1;
    }
    this.redraw();
  }

  emphasise(docid) {
    emphasise(this.node, this.overlay, docid);
  }

  tabKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.choose((this.current + step + this.columns.length) % this.columns.length);
    this.tabs.children[this.current].focus();
  }

  /** Up and down within a list; left and right to the same document, or the same rank, of the next one. */
  key(event) {
    const hit = event.target.closest?.(".hit");
    if (!hit || event.altKey || event.ctrlKey || event.metaKey) return;
    const column = this.columns.find((item) => item.list.contains(hit));
    const hits = [...column.list.querySelectorAll(".hit")];
    const rank = hits.indexOf(hit);
    let next = null;
    if (event.key === "ArrowDown") next = hits[rank + 1];
    else if (event.key === "ArrowUp") next = hits[rank - 1] ?? byId("query");
    else if (event.key === "Home") next = hits[0];
    else if (event.key === "End") next = hits.at(-1);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") next = this.beside(column, hit, rank, event.key === "ArrowLeft" ? -1 : 1);
    else return;
    event.preventDefault();
    if (next) this.focus(next);
  }

  beside(column, hit, rank, step) {
    const other = this.columns[column.place + step];
    if (!other) return null;
    const hits = [...other.list.querySelectorAll(".hit")];
    if (hits.length && this.tabs.offsetParent !== null) this.choose(other.place);
    return hits.find((item) => item.dataset.docid === hit.dataset.docid) ?? hits[Math.min(rank, hits.length - 1)];
  }

  focus(target) {
    if (target.classList.contains("hit")) {
      for (const item of target.closest(".hits").querySelectorAll(".hit")) item.tabIndex = -1;
      target.tabIndex = 0;
    }
    target.focus();
    target.scrollIntoView({ block: "nearest" });
  }

  /** Puts the focus on the first hit of the list in view. */
  focusFirst() {
    const hit = this.columns[this.current]?.list.querySelector(".hit") ?? this.node.querySelector(".hit");
    if (hit) this.focus(hit);
  }
}
