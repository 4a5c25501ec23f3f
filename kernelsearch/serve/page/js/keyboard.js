// Keys that work everywhere on the page.

import { byId } from "./dom.js";

const typing = (target) => target.matches?.("input:not([type=range]):not([type=checkbox]), textarea, select");

export function listenToKeys(app) {
  const help = byId("help");
  byId("help-open").addEventListener("click", () => help.showModal());
  byId("help-close").addEventListener("click", () => help.close());
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && app.state.open) {
      event.preventDefault();
      app.close();
    } else if (typing(event.target)) {
      return;
    } else if (event.key === "/") {
      event.preventDefault();
      byId("query").focus();
      byId("query").select();
    } else if (event.key === "?") {
      event.preventDefault();
      help.showModal();
    }
  });
}
