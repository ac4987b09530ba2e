// Without this script the page is whole; it only adds a button that copies a table as tab-separated text.
for (const box of document.querySelectorAll(".scroll")) {
  const table = box.querySelector("table");
  const button = document.createElement("button");
  const name = "Copy table";
  button.type = "button";
  button.textContent = name;
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    const lines = Array.from(table.rows, (row) => Array.from(row.cells, (cell) => cell.textContent).join("\t").replaceAll("\u00a0", " "));
    try {
      await navigator.clipboard.writeText(lines.join("\n"));
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(table);
      button.textContent = "Selected: copy with your keyboard";
    }
    setTimeout(() => { button.textContent = name; }, 2000);
  });
  box.after(button);
}
