// Loaded before the first paint (a plain script, not a module), so that the chosen theme never flashes.
(() => {
  "use strict";
  const root = document.documentElement;
  const KEY = "kernelsearch.theme";
  const system = () => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage may be switched off; then the system's theme is used
    }
  };
  if (stored()) root.dataset.theme = stored();
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => {
      const other = (root.dataset.theme || system()) === "dark" ? "light" : "dark";
      button.setAttribute("aria-label", `Use ${other} colours`);
      button.title = `Use ${other} colours`;
    };
    button.addEventListener("click", () => {
      const next = (root.dataset.theme || system()) === "dark" ? "light" : "dark";
      root.dataset.theme = next;
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // without storage the choice lasts as long as the page
      }
      show();
    });
    show();
  });
})();
