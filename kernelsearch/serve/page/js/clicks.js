// Clicks are recorded only where the server has a click log and the user of the page has agreed.

import { click } from "./api.js";
import { byId } from "./dom.js";

const KEY = "kernelsearch.record";
const MAX_SIGNED = 100; // the server signs so many documents of a list

export class Clicks {
  /** `recorded` is called when the log has grown. */
  constructor(recorded) {
    this.recorded = recorded;
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
    const docids = result?.hits.slice(0, MAX_SIGNED).map((hit) => hit.docid) ?? [];
    if (!this.agreed || !result?.impression || !docids.includes(docid)) return;
    try {
      await click(index, { impression: result.impression, query, docids, clicked: docid });
      this.status.textContent = "Recorded.";
      this.recorded();
    } catch (problem) {
      this.status.textContent = `Not recorded: ${problem.message}`;
    }
  }
}

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
