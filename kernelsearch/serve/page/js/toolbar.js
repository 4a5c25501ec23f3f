// Below the search box: which index, which judged topic, how many hits, one more method.

import { topics } from "./api.js";
import { byId, el } from "./dom.js";
import { plural, shortened } from "./format.js";
import { DEPTHS, MOST_METHODS } from "./state.js";

export class Toolbar {
  constructor(app) {
    this.app = app;
    this.topics = [];
    this.loaded = null;
    for (const name of ["index", "topic", "hits", "add"]) this[name] = byId(name);
    this.index.addEventListener("change", () => app.useIndex(this.index.value));
    this.topic.addEventListener("change", () => {
      const topic = this.topics.find((item) => item.topic === this.topic.value);
      if (topic) app.search(topic.text, topic.topic);
      else app.change({ topic: "" });
    });
    this.hits.append(...DEPTHS.map((depth) => el("option", { value: depth }, String(depth))));
    this.hits.addEventListener("change", () => app.change({ hits: Number(this.hits.value) }));
    this.add.addEventListener("change", () => {
      const name = this.add.value;
      this.add.value = "";
      if (name) app.addMethod(name);
    });
  }

  /** The choices that belong to an index: fetched once for each. */
  async useIndex() {
    const { app } = this;
    this.index.replaceChildren(...app.indexes.map((item) => el("option", { value: item.name }, `${item.name} (${plural(item.documents, "document")})`)));
    this.add.replaceChildren(el("option", { value: "" }, "Add a method…"), ...app.choices().map((item) =>
      el("option", { value: item.name, disabled: !item.ready, title: item.ready ? item.summary : item.why }, `${item.name}: ${item.ready ? item.summary : "not ready"}`)));
    if (this.loaded === app.state.index) return;
    this.topics = app.index.judged ? await topics(app.state.index) : [];
    this.loaded = app.state.index;
    this.topic.replaceChildren(el("option", { value: "" }, this.topics.length ? "No topic: no measures" : "No judged topics"),
      ...this.topics.map((item) => el("option", { value: item.topic }, `${item.topic}: ${shortened(item.text.replace(/\s+/g, " "), 60)}`)));
  }

  /** The topic with exactly this text, "" where there is none. */
  topicOf(text) {
    return this.topics.find((item) => item.text.trim() === text)?.topic ?? "";
  }

  show() {
    const { state } = this.app;
    this.index.value = state.index;
    this.index.closest("label").hidden = this.app.indexes.length < 2;
    this.topic.value = state.topic;
    this.topic.closest("label").hidden = !this.topics.length;
    this.hits.value = String(state.hits);
    this.add.closest("label").hidden = state.columns.length >= MOST_METHODS;
  }
}
