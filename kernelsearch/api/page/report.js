"use strict";

// A click on a column's head sorts the table by it: numbers from the largest, words from A; another click turns it round.
function key(cell) {
  const text = cell.textContent.trim().replace("−", "-").replace(/[*%<[]/g, "");
  const value = parseFloat(text);
  return Number.isNaN(value) ? null : value;
}

function sortTable(table, column, descending) {
  const body = table.tBodies[0];
  const numeric = table.tHead.rows[0].cells[column].classList.contains("number");
  const words = new Intl.Collator(undefined, { numeric: true });
  const rows = Array.from(body.rows);
  rows.sort((a, b) => {
    const [x, y] = [a.cells[column], b.cells[column]];
    if (!numeric) return words.compare(x.textContent, y.textContent) * (descending ? -1 : 1);
    const [p, q] = [key(x), key(y)];
    if (p === null || q === null) return (p === null) - (q === null); // what has no number stays below
    return (p - q) * (descending ? -1 : 1);
  });
  body.append(...rows);
}

for (const table of document.querySelectorAll("table.sortable")) {
  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const before = head.getAttribute("aria-sort");
      const descending = before === "none" ? head.classList.contains("number") : before === "ascending";
      for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortTable(table, column, descending);
    });
  });
}

for (const chooser of document.querySelectorAll(".chooser")) {
  chooser.addEventListener("change", () => {
    for (const panel of chooser.closest(".panels").querySelectorAll(".panel")) {
      panel.hidden = panel.dataset.measure !== chooser.value;
    }
  });
}
