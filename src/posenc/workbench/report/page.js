// Without this script the page is whole; it only sorts tables, copies one as text with tabs or as CSV, copies code and
// formulas, and shows the address of a panel beside its heading, which keyboards reach by the contents list.
const FORMS = {
  "Copy table": (cells) => cells.join("\t"),
  "Copy as CSV": (cells) => cells.map((text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(","),
};

function tableText(table, name) {
  const rows = Array.from(table.rows, (row) => Array.from(row.cells, (cell) => cell.textContent.replaceAll("\u00a0", " ")));
  return rows.map(FORMS[name]).join("\n");
}

function copyButton(source, name, textOf) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = name;
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(textOf(source, name));
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected: copy with your keyboard";
    }
    setTimeout(() => { button.textContent = name; }, 2000);
  });
  return button;
}

for (const box of document.querySelectorAll(".scroll")) {
  const table = box.querySelector("table");
  if (table.tBodies[0].rows.length > 1) makeSortable(table);
  box.after(...Object.keys(FORMS).map((name) => copyButton(table, name, tableText)));
}

for (const code of document.querySelectorAll("pre > code")) {
  code.parentElement.after(copyButton(code, "Copy", () => code.textContent));
}

for (const section of document.querySelectorAll("main > section[id]")) {
  const link = document.createElement("a");
  link.href = `#${section.id}`;
  link.className = "address";
  link.textContent = "#";
  link.tabIndex = -1;
  link.setAttribute("aria-hidden", "true");
  section.querySelector("h2").append(link);
}
