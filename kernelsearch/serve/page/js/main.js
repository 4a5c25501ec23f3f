// The page: its state, what changes it, and what is shown of it.

import * as api from "./api.js";
import { Board } from "./board.js";
import { Clicks } from "./clicks.js";
import { byId, debounced } from "./dom.js";
import { changed, firstName, firstOptions, firstValues } from "./firststage.js";
import { askForKey } from "./key.js";
import { listenToKeys } from "./keyboard.js";
import { Layout } from "./layout.js";
import { Lists } from "./lists.js";
import { nothingNode } from "./nothing.js";
import { failureNode } from "./notice.js";
import { Panel } from "./panel.js";
import { SearchBox } from "./searchbox.js";
import { MOST_METHODS, fromSearch, toSearch } from "./state.js";
import { Toolbar } from "./toolbar.js";
import { welcome } from "./welcome.js";

const DEFAULT_METHODS = ["auto", "klsa", "rbm25", "pert", "mslm"];
const DEFAULT_COLUMNS = 2;
const SLIDER_PAUSE = 60; // milliseconds: a drag of a slider fetches some lists, not all
const ADDRESS_PAUSE = 250;

class App {
  constructor() {
    this.state = fromSearch(location.search);
    this.columnKeys = [];
    this.cache = new Lists();
    this.board = new Board(this);
    this.panel = new Panel(this);
    this.box = new SearchBox(this);
    this.toolbar = new Toolbar(this);
    this.layout = new Layout();
    this.clicks = new Clicks(() => this.cache.clear());
    this.ask = debounced(() => this.fetchLists(), SLIDER_PAUSE);
    // Browsers refuse more than a few changes of the address per second, so a slider changes it when it stops.
    this.noteAddress = debounced(() => history.replaceState(null, "", location.pathname + toSearch(this.state)), ADDRESS_PAUSE);
    addEventListener("popstate", () => {
      this.state = fromSearch(location.search);
      this.arrive();
    });
    addEventListener("online", () => this.retryAll());
    listenToKeys(this);
  }

  async start() {
    try {
      const [indexes, about] = await Promise.all([api.indexes(), api.methods()]);
      Object.assign(this, { indexes, about });
      byId("query").maxLength = about.limits.query;
      byId("problem").replaceChildren();
      await this.arrive();
    } catch (problem) {
      if (problem.kind === "locked") askForKey(() => this.start());
      byId("problem").replaceChildren(failureNode(problem, () => this.start()));
    }
    document.body.classList.add("ready");
  }

  get index() {
    return this.indexes.find((item) => item.name === this.state.index) ?? this.indexes[0];
  }

  method(name) {
    return this.about.methods.find((item) => item.name === name);
  }

  draws = (name) => Boolean(this.method(name)?.draws);
  names = () => [firstName(this.state.first), ...this.state.columns.map((column) => column.method)];
  lists = () => this.board.columns.map((column) => column.shown);

  /** The methods as choices, with whether this index has what they need. */
  choices() {
    const ready = new Map(this.index.methods.map((item) => [item.name, item]));
    return this.about.methods.map((method) => ({ ...method, ready: ready.get(method.name)?.ready ?? true, why: ready.get(method.name)?.why }));
  }

  /** Fits a state that came from an address to what the server has, then shows it. */
  async arrive() {
    const asked = this.state.index;
    const known = !asked || this.indexes.some((item) => item.name === asked);
    this.state.index = this.index.name;
    byId("problem").replaceChildren(...(known ? [] : [failureNode(new api.Failure("refused", `This server has no index “${asked}”. Below is ${this.index.name}.`))]));
    this.state.columns = this.state.columns === null ? this.defaultColumns() : this.state.columns.filter((column) => this.method(column.method));
    if (this.state.open && this.state.open.column > this.state.columns.length) this.state.open = null;
    await this.toolbar.useIndex();
    this.columnKeys = [];
    this.show();
  }

  /** Goes to another index with the same query; topics and methods are that index's own. */
  async useIndex(index) {
    this.state = { ...this.state, index, topic: "", open: null, columns: null };
    await this.arrive();
    this.change({});
  }

  defaultColumns() {
    const ready = this.choices().filter((item) => item.ready).map((item) => item.name);
    return DEFAULT_METHODS.filter((name) => ready.includes(name)).slice(0, DEFAULT_COLUMNS).map((method) => ({ method, options: {} }));
  }

  /** Changes the state, the address (as a step that Back undoes, if `step`) and what is shown. */
  change(patch, step = true) {
    Object.assign(this.state, patch);
    if (step && toSearch(this.state) !== location.search) history.pushState(null, "", location.pathname + toSearch(this.state));
    else this.noteAddress();
    this.show();
  }

  show() {
    const { state } = this;
    document.title = state.query ? `${state.query} – kernelsearch` : "kernelsearch";
    this.box.text = state.query;
    this.toolbar.show();
    this.clicks.offer(this.index.recording);
    byId("welcome").replaceChildren(...(state.query ? [] : [welcome(this)]));
    byId("results").hidden = !state.query;
    this.describeColumns();
    if (state.query) this.ask();
    const open = JSON.stringify([state.index, state.query, state.open]);
    if (open !== this.shownOpen) this.panel.show(); // what else changes, changes the lists first, and they call the panel
    this.shownOpen = open;
  }

  describeColumns() {
    const { state } = this;
    this.board.arrange(1 + state.columns.length);
    this.board.name(this.names());
    const first = JSON.stringify([state.index, Object.keys(state.first).filter((name) => state.first[name] === true)]);
    if (this.columnKeys[0] !== first) {
      this.board.columns[0].describe("First stage", firstName(state.first), firstOptions(this.about.first_stage, state.first), firstValues(state.first), []);
    }
    for (const [n, column] of state.columns.entries()) {
      if (this.columnKeys[n + 1] === column.method) continue;
      const method = this.method(column.method);
      this.board.columns[n + 1].describe(method.name, method.summary, method.options, column.options, this.choices());
    }
    for (const column of this.board.columns) column.helpNothing = () => nothingNode(this);
    this.columnKeys = [first, ...state.columns.map((column) => column.method)];
  }

  fetchLists() {
    for (const [n, column] of this.board.columns.entries()) {
      this.cache.fetch(n, api.searchAddress(this.state, this.state.columns[n - 1]), {
        started: () => column.loading(),
        done: (result) => this.received(n, result),
        failed: (problem) => {
          if (problem.kind === "locked") askForKey(() => this.retryAll());
          column.fail(problem);
          this.board.redraw();
        },
      });
    }
  }

  received(place, result) {
    const base = () => this.board.columns[0].shown?.measures;
    this.board.columns[place].show(result, place ? base() : null);
    if (place === 0) for (const column of this.board.columns.slice(1)) column.measure(base());
    this.board.columns.forEach((column, n) => column.mark(this.state.open?.column === n ? this.state.open.docid : null));
    this.board.redraw();
    if (this.state.open) this.panel.show();
  }

  retryAll() {
    this.board.columns.forEach((_, n) => this.cache.forget(n));
    if (this.indexes) this.show();
    else this.start();
  }

  search(query, topic = "") {
    if (!query) return;
    if (!topic) topic = this.toolbar.topicOf(query);
    this.change({ query, topic, open: null });
  }

  open(docid, column = this.state.open?.column ?? 0, view = this.state.open?.view ?? "why") {
    this.change({ open: { docid, column, view } });
    this.panel.show(true);
    this.board.columns.forEach((item, n) => item.mark(n === column ? docid : null));
  }

  view(view) {
    this.change({ open: { ...this.state.open, view } }, false);
  }

  close() {
    const open = this.state.open;
    if (!open) return;
    this.change({ open: null });
    this.board.columns.forEach((column) => column.mark(null));
    const hit = [...this.board.columns[open.column].list.querySelectorAll(".hit")].find((item) => item.dataset.docid === open.docid);
    if (hit) this.board.focus(hit);
    else byId("query").focus();
  }

  enterLists() {
    this.board.focusFirst();
  }

  addMethod(name) {
    if (this.state.columns.length < MOST_METHODS) this.change({ columns: [...this.state.columns, { method: name, options: {} }] });
    this.board.choose(this.state.columns.length);
  }

  columnActions(place) {
    const edit = (column, step) => this.change({ columns: this.state.columns.map((item, n) => (n === place - 1 ? column : item)) }, step);
    const again = () => {
      this.columnKeys[place] = null;
    };
    return {
      open: (docid) => {
        this.clicks.opened(this.state.index, this.state.query, this.board.columns[place].shown, docid);
        this.open(docid, place);
      },
      emphasise: (docid) => this.board.emphasise(docid),
      retry: () => {
        this.cache.forget(place);
        this.fetchLists();
      },
      choose: (method) => {
        this.board.columns[place].empty();
        edit({ method, options: {} }, true);
      },
      remove: () => {
        this.columnKeys = [];
        this.change({ columns: this.state.columns.filter((_, n) => n !== place - 1), open: null });
        this.board.columns.forEach((_, n) => this.cache.forget(n));
        this.ask();
      },
      reset: () => {
        again();
        if (place === 0) this.change({ first: {} });
        else edit({ ...this.state.columns[place - 1], options: {} }, true);
      },
      option: (name, value) => {
        if (place === 0) {
          const { next, rebuild } = changed(this.state.first, name, value);
          if (rebuild) again();
          this.change({ first: next }, false);
          return;
        }
        const column = this.state.columns[place - 1];
        const options = { ...column.options };
        if (value === undefined) delete options[name];
        else options[name] = value;
        edit({ ...column, options }, false);
      },
    };
  }
}

new App().start();
