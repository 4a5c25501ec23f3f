// How much is shown: compact lists, and on narrow screens whether options are unfolded.

import { byId } from "./dom.js";

const KEY = "kernelsearch.compact";

export class Layout {
  constructor() {
    this.compact = byId("compact");
    this.fold = byId("fold");
    this.compact.checked = stored();
    this.apply();
    this.compact.addEventListener("change", () => {
      this.apply();
      store(this.compact.checked);
    });
    this.fold.addEventListener("click", () => {
      const open = document.body.classList.toggle("unfolded");
      this.fold.setAttribute("aria-expanded", String(open));
    });
  }

  apply() {
    document.body.classList.toggle("compact", this.compact.checked);
  }
}

function stored() {
  try {
    return localStorage.getItem(KEY) === "yes";
  } catch {
    return false; // storage may be switched off
  }
}

function store(value) {
  try {
    localStorage.setItem(KEY, value ? "yes" : "no");
  } catch {
    // without storage the choice lasts as long as the page
  }
}
