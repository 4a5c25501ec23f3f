// The side panel: why a document has its rank, its text, similar documents.

import * as api from "./api.js";
import { contributionBars } from "./bars.js";
import { byId, el } from "./dom.js";
import { number } from "./format.js";
import { marked } from "./highlight.js";
import { judgement, movement } from "./hit.js";
import { failureNode } from "./notice.js";
import { decisionPicture } from "./pictures/decision.js";
import { feedbackPicture } from "./pictures/feedback.js";
import { drawnHere, picture } from "./pictures/index.js";
import { Reading, firstStageNote } from "./reading.js";
import { similarNode, withoutTitle } from "./similar.js";
import { VIEWS } from "./state.js";

const NAMES = { why: "Why here", text: "Text", similar: "Similar" };

export class Panel {
  /** `app`: state, lists (what each column shows), names, draws(method), open(...), close(), search(text). */
  constructor(app) {
    this.app = app;
    this.node = byId("panel");
    this.body = byId("panel-body");
    this.head = byId("panel-head");
    this.running = null;
    this.shown = "";
    this.met = new Map(); // documents seen outside the lists, such as similar ones
    byId("panel-close").addEventListener("click", () => app.close());
    this.tabs = byId("panel-tabs");
    this.tabs.append(...VIEWS.map((view) => el("button", {
      type: "button", role: "tab", id: `view-${view}`, "aria-controls": "panel-body", onclick: () => app.view(view),
    }, NAMES[view])));
    this.tabs.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const place = (VIEWS.indexOf(this.app.state.open.view) + step + VIEWS.length) % VIEWS.length;
      app.view(VIEWS[place]);
      this.tabs.children[place].focus();
    });
  }

  /** Shows what app.state.open asks for; `fresh` puts the focus into the panel. */
  async show(fresh = false) {
    const open = this.app.state.open;
    this.node.hidden = !open;
    document.body.classList.toggle("with-panel", Boolean(open));
    if (!open) {
      this.running?.abort();
      this.shown = "";
      return;
    }
    for (const [n, view] of VIEWS.entries()) {
      this.tabs.children[n].setAttribute("aria-selected", String(view === open.view));
      this.tabs.children[n].tabIndex = view === open.view ? 0 : -1;
    }
    this.body.setAttribute("aria-labelledby", `view-${open.view}`);
    const key = this.key(open);
    if (key === this.shown) {
      await this.showHead(open, fresh, this.running.signal);
      return;
    }
    this.running?.abort();
    this.running = new AbortController();
    const other = key.split("|")[0] !== this.shown.split("|")[0];
    this.shown = key;
    if (other) this.body.replaceChildren(el("p", { class: "nothing" }, "Loading…"));
    await this.fill(open, fresh, this.running.signal);
  }

  async fill(open, fresh, signal) {
    this.body.setAttribute("aria-busy", "true");
    try {
      const doc = await this.showHead(open, fresh, signal);
      const node = await this.views[open.view].call(this, doc, open, signal);
      if (!signal.aborted) this.body.replaceChildren(node);
    } catch (problem) {
      if (signal.aborted) return;
      this.shown = "";
      this.body.replaceChildren(failureNode(problem, () => this.show()));
    }
    if (!signal.aborted) this.body.removeAttribute("aria-busy");
  }

  /** What the body shows, so that it is made again only when something changed. */
  key(open) {
    const { state } = this.app;
    const column = state.columns[open.column - 1];
    const listed = column || this.app.lists()[0] ? "listed" : "";
    const address = `${api.explainAddress(state, column, open.docid)} ${listed}`;
    return `${open.view} ${open.docid}|${open.view === "why" ? address : `${state.index} ${state.query} ${this.words().size}`}`;
  }

  async document(docid, signal) {
    const seen = this.app.lists().flatMap((list) => list?.hits ?? []).find((hit) => hit.docid === docid) ?? this.met.get(`${this.app.state.index} ${docid}`);
    return seen ?? api.document(this.app.state.index, docid, signal);
  }

  words() {
    return new Set(this.app.lists().flatMap((list) => [...(list?.words ?? [])]));
  }

  /** The document's title and its rank in each list; returns the document. */
  async showHead(open, fresh, signal) {
    const doc = await this.document(open.docid, signal);
    if (signal.aborted) return doc;
    const places = this.app.lists().map((list, n) => {
      const hit = list?.hits.find((item) => item.docid === doc.docid);
      const moved = hit && movement(hit);
      return el("li", { class: n === open.column ? "here" : null },
        el("button", { type: "button", class: "plain", disabled: !hit, onclick: () => this.app.open(doc.docid, n) },
          el("span", {}, this.app.names()[n]), el("strong", {}, hit ? String(hit.rank) : "–"),
          moved ? el("span", { class: `moved ${moved.kind}` }, moved.sign) : null));
    });
    const grade = this.app.lists().flatMap((list) => list?.hits ?? []).find((hit) => hit.docid === doc.docid)?.grade;
    this.head.replaceChildren(
      el("h2", { id: "panel-title", tabindex: "-1" }, judgement(grade), doc.title || doc.docid),
      el("p", { class: "docid" }, doc.docid), el("ul", { class: "places", "aria-label": "Rank in each list" }, places));
    if (fresh) byId("panel-title").focus();
    return doc;
  }

  views = {
    async why(doc, open, signal) {
      const { state } = this.app;
      const column = state.columns[open.column - 1];
      if (!column && !this.app.lists()[0]?.hits.some((hit) => hit.docid === doc.docid)) {
        return el("p", { class: "nothing" }, `${this.app.names()[0]}'s list does not show this document.`);
      }
      const answer = await api.explain(api.explainAddress(state, column, doc.docid), signal);
      if (!answer.explanation) return el("p", { class: "nothing" }, `${column.method} leaves the first stage's list as it is: ${answer.fallback}.`);
      if (!column) return this.firstStageReasons(answer);
      return this.reasons(answer, column, signal);
    },
    async text(doc) {
      const rest = (doc.fields ?? []).filter(([, value]) => value !== null && value !== "");
      const asText = (value) => (Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value));
      return el("article", { class: "full-text" },
        withoutTitle({ title: doc.title, text: doc.text ?? "" }).split(/\n+/).map((line) => el("p", {}, marked(line, this.words()))),
        rest.length ? el("dl", { class: "fields" }, rest.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, asText(value))))) : null);
    },
    async similar(doc, open, signal) {
      return similarNode(this.app.state.index, doc.docid, this.words(), (hit) => {
        this.met.set(`${this.app.state.index} ${hit.docid}`, hit);
        this.app.open(hit.docid, open.column, this.app.lists()[open.column]?.hits.some((item) => item.docid === hit.docid) ? "why" : "text");
      }, signal);
    },
  };

  /** The score of the first stage by term. */
  firstStageReasons(answer) {
    const { explanation } = answer;
    const note = firstStageNote(explanation);
    return el("div", { class: "reasons" },
      el("section", {}, el("h4", {}, `${explanation.method} by term`), contributionBars(explanation, new Reading(answer)),
        note ? el("p", { class: "note" }, note) : null));
  }

  async reasons(answer, column, signal) {
    const reading = new Reading(answer);
    const actions = { open: (docid) => this.app.open(docid), search: (text) => this.app.search(text), ...reading };
    const drawn = picture(answer.explanation, actions);
    const decision = decisionPicture(answer.explanation, actions);
    const feedback = feedbackPicture(answer.explanation, actions);
    return el("div", { class: "reasons" },
      el("section", {}, el("h4", {}, `Contributions to the score of ${column.method}`), contributionBars(answer.explanation, reading)),
      decision ? el("section", { class: "decision" }, el("h4", {}, decision.title), decision.node, el("p", { class: "note" }, decision.note)) : null,
      feedback ? el("section", {}, el("h4", {}, feedback.title), feedback.node, el("p", { class: "note" }, feedback.note)) : null,
      drawn ? el("section", {}, el("h4", {}, drawn.title), drawn.node, el("p", { class: "note" }, drawn.note))
        : this.app.draws(column.method) && !drawnHere(column.method) ? await this.plotted(answer, column, signal) : null);
  }

  /** The service's picture. */
  async plotted(answer, column, signal) {
    try {
      const source = await api.plot(this.app.state, column, answer.docid, signal);
      return el("section", {}, el("h4", {}, "Picture"), el("img", { class: "plot", alt: `${column.method}'s picture of this query`, src: source }));
    } catch (problem) {
      if (problem.name === "AbortError") throw problem;
      return el("p", { class: "note" }, problem.message);
    }
  }
}
