// The search box with suggestions from the click log: a combobox as the ARIA patterns describe it.

import { suggestions } from "./api.js";
import { byId, debounced, el } from "./dom.js";

export class SearchBox {
  /** `app` gives app.state.index and app.search(text). */
  constructor(app) {
    this.app = app;
    this.input = byId("query");
    this.list = byId("suggestions");
    this.active = -1;
    this.running = null;
    const ask = debounced(() => this.ask(), 120);
    this.input.addEventListener("input", ask);
    this.input.addEventListener("focus", () => this.input.value.trim() === "" && ask());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => this.close());
    byId("search").addEventListener("submit", (event) => {
      event.preventDefault();
      this.go(this.input.value);
    });
  }

  set text(value) {
    this.input.value = value;
    this.close();
  }

  go(text) {
    this.close();
    this.input.value = text;
    this.app.search(text.trim());
  }

  async ask() {
    this.running?.abort();
    if (document.activeElement !== this.input) return;
    this.running = new AbortController();
    try {
      const logged = await suggestions(this.app.state.index, this.input.value.trimStart(), this.running.signal);
      if (document.activeElement === this.input) this.show(logged.filter((item) => item.query !== this.input.value.trim()));
    } catch (problem) {
      if (problem.name !== "AbortError") this.close(); // suggestions are a comfort: without them the box still searches
    }
  }

  show(logged) {
    this.active = -1;
    this.list.replaceChildren(...logged.map((item, place) => el("li", {
      role: "option", id: `suggestion-${place}`, "aria-selected": "false",
      onmousedown: (event) => event.preventDefault(), onclick: () => this.go(item.query),
    }, el("span", {}, item.query), el("small", {}, item.clicks === 1 ? "1 click" : `${item.clicks} clicks`))));
    this.list.hidden = !logged.length;
    this.input.setAttribute("aria-expanded", String(logged.length > 0));
    this.input.removeAttribute("aria-activedescendant");
  }

  close() {
    this.running?.abort();
    this.list.hidden = true;
    this.active = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const open = !this.list.hidden;
    if (event.key === "ArrowDown" && !open) {
      event.preventDefault();
      this.app.enterLists();
    } else if (open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const count = this.list.children.length;
      this.mark((this.active + (event.key === "ArrowDown" ? 1 : -1) + count + (this.active < 0 && event.key === "ArrowUp" ? 1 : 0)) % count);
    } else if (open && event.key === "Enter" && this.active >= 0) {
      event.preventDefault();
      this.list.children[this.active].click();
    } else if (open && event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      this.close();
    }
  }

  mark(place) {
    this.active = place;
    for (const [n, option] of [...this.list.children].entries()) option.setAttribute("aria-selected", String(n === place));
    this.input.setAttribute("aria-activedescendant", `suggestion-${place}`);
    this.list.children[place].scrollIntoView({ block: "nearest" });
  }
}
