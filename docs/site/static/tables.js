// Tables of class "sortable" sort by a click on a heading, and a field above them leaves rows out.
// Without this script they are plain tables.
"use strict";

const LONG = 25; // rows of a table that has a field

function cellValue(row, column) {
  const text = row.cells[column].textContent.trim();
  const number = /^[-−]?[\d.,]+(?=\D|$)/.exec(text);
  return number ? { text, number: Number(number[0].replace("−", "-").replaceAll(",", "")) } : { text, number: NaN };
}

function compare(a, b) {
  if (Number.isNaN(a.number) !== Number.isNaN(b.number)) return Number.isNaN(a.number) ? 1 : -1;
  return Number.isNaN(a.number) ? a.text.localeCompare(b.text) : a.number - b.number;
}

function sortBy(table, heading, column) {
  const up = heading.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const rows = Array.from(table.tBodies[0].rows);
  rows.sort((a, b) => (up ? 1 : -1) * compare(cellValue(a, column), cellValue(b, column)));
  table.tBodies[0].append(...rows);
}

function addFilter(table) {
  const field = document.createElement("input");
  field.type = "search";
  field.className = "table-filter";
  field.placeholder = "Show rows with these words";
  field.setAttribute("aria-label", "Show rows with these words");
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
  (table.closest(".table-wrapper") ?? table).before(field);
}

document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("table.sortable")) {
    Array.from(table.tHead.rows[0].cells).forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => sortBy(table, heading, column));
    });
    if (table.tBodies[0].rows.length >= LONG) addFilter(table);
  }
});
