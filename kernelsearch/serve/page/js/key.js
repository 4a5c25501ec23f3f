// Asks for the API key of a server that requires one. It is stored in memory only: a reload asks again.

import { useKey } from "./api.js";
import { byId } from "./dom.js";

/** Shows the dialog; `then` is called when a key was entered. */
export function askForKey(then) {
  const dialog = byId("key");
  if (dialog.open) return;
  const form = dialog.querySelector("form");
  form.onsubmit = () => {
    useKey(byId("key-value").value.trim());
    then();
  };
  dialog.showModal();
}
