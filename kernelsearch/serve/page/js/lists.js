// Fetches lists: one request per column, of which the newest is shown, with a cache of recent answers.

import { search } from "./api.js";

const CACHE_SIZE = 60;

export class Lists {
  constructor() {
    this.known = new Map();
    this.running = [];
    this.asked = [];
  }

  /** Calls `started`, then `done(result)` or `failed(problem)` for a column, unless a newer request took its place. */
  async fetch(place, address, { started, done, failed }) {
    if (this.asked[place] === address) return;
    this.running[place]?.abort();
    this.asked[place] = address;
    if (this.known.has(address)) {
      done(this.known.get(address));
      return;
    }
    started();
    const control = new AbortController();
    this.running[place] = control;
    try {
      const result = await search(address, control.signal);
      this.keep(address, result);
      if (this.asked[place] === address) done(result);
    } catch (problem) {
      if (problem.name === "AbortError" || this.asked[place] !== address) return;
      this.asked[place] = null;
      failed(problem);
    }
  }

  keep(address, result) {
    this.known.set(address, result);
    if (this.known.size > CACHE_SIZE) this.known.delete(this.known.keys().next().value);
  }

  /** Forgets what a column shows, so that the same address is asked again. */
  forget(place) {
    this.running[place]?.abort();
    this.asked[place] = null;
  }

  /** Forgets every answer: the click log has changed, and with it what methods make of it. */
  clear() {
    this.known.clear();
  }
}
