// Clicks are recorded only where the server keeps a log and the person at the page has said yes.

import { click } from "./api.js";
import { byId } from "./dom.js";

const KEY = "kernelsearch.record";

export class Clicks {
  /** `recorded` is called when the log has grown. */
  constructor(recorded) {
    this.recorded = recorded;
    this.shown = new Map(); // list -> its random number, so that several clicks on one list count it once
    this.place = byId("consent");
    this.box = byId("record");
    this.status = byId("record-status");
    this.box.checked = stored() === "yes";
    this.box.addEventListener("change", () => {
      store(this.box.checked ? "yes" : "no");
      this.status.textContent = "";
    });
  }

  /** Shows the switch where the index's server records clicks. */
  offer(recording) {
    this.place.hidden = !recording;
  }

  get agreed() {
    return !this.place.hidden && this.box.checked;
  }

  /** Records that `docid` of the list was opened, if that was agreed to. */
  async opened(index, query, result, docid) {
    if (!this.agreed || !result?.hits.some((hit) => hit.docid === docid)) return;
    if (!this.shown.has(result)) this.shown.set(result, randomNumber());
    try {
      await click(index, { impression: this.shown.get(result), query, docids: result.hits.map((hit) => hit.docid), clicked: docid });
      this.status.textContent = "Recorded.";
      this.recorded();
    } catch (problem) {
      this.status.textContent = `Not recorded: ${problem.message}`;
    }
  }
}

/** 128 random bits; crypto.randomUUID is missing where the page comes over plain HTTP from another machine. */
const randomNumber = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage may be switched off: then every visit begins without consent
  }
}

function store(value) {
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // without storage the choice lasts as long as the page
  }
}
