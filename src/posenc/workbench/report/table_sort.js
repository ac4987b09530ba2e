// A click on a heading of a table sorts its rows. Without this script it is a plain table.
"use strict";

const NUMBER = /^([-−+]?)(\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)(?=[\s%±×/]|$)/i; // of "0.72 [0.57, 0.88]" the 0.72; none of "2d-fixed"

function cellValue(row, column) {
  const text = row.cells[column].textContent.trim(), found = NUMBER.exec(text);
  return { text, number: found ? Number(found[2].replaceAll(",", "")) * ("-−".includes(found[1] || "+") ? -1 : 1) : NaN };
}

function compare(a, b) {
  if (Number.isNaN(a.number) && Number.isNaN(b.number)) return a.text.localeCompare(b.text);
  return a.number - b.number;
}

/** Sort the rows; those without a number come last in both orders if others have one. */
function sortBy(table, heading, column) {
  const up = heading.getAttribute("aria-sort") !== "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const rows = Array.from(table.tBodies[0].rows, (row) => ({ row, value: cellValue(row, column) }));
  const missing = (each) => Number.isNaN(each.value.number);
  rows.sort((a, b) => (missing(a) !== missing(b) ? missing(a) - missing(b) : (up ? 1 : -1) * compare(a.value, b.value)));
  table.tBodies[0].append(...rows.map((each) => each.row));
}

function makeSortable(table) {
  Array.from(table.tHead.rows[0].cells).forEach((heading, column) => {
    if (!heading.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sortBy(table, heading, column));
  });
}
