// Tables of class "sortable" sort by a click on a heading, and a field above them leaves rows out.
// Without this script they are plain tables. table_sort.js, which sorts, is that of the pages of results.
"use strict";

const LONG = 12; // rows of a table that has a field

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
    makeSortable(table);
    if (table.tBodies[0].rows.length >= LONG) addFilter(table);
  }
});
