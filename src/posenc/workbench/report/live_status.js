// Reloads a page while its runs go on, and reports a run that has died: the page was then not written when it was due.
const live = document.getElementById("live");
const memory = `posenc ${location.pathname}`;
const folded = () => Array.from(document.querySelectorAll("details"));
const reload = () => {
  try {
    const open = folded().map((one) => one.open);
    sessionStorage.setItem(memory, JSON.stringify({ top: scrollY, open }));
  } catch { /* without storage the browser alone keeps the place */ }
  location.reload();
};
try {
  const before = JSON.parse(sessionStorage.getItem(memory) ?? "null");
  sessionStorage.removeItem(memory);
  if (before) {
    folded().forEach((one, place) => { one.open = before.open[place] ?? one.open; });
    scrollTo(0, before.top);
  }
} catch { /* as above */ }
if (live.dataset.state === "running") {
  const seconds = Number(live.dataset.pause);
  const look = () => {
    if (Date.now() / 1000 <= Number(live.dataset.due)) return;
    live.dataset.state = "overdue";
    live.querySelector(".state").textContent = `Stopped at ${live.dataset.written}.`;
    live.querySelector(".hint").textContent =
      "The page has not been written since then, so the command has ended. Run the same command again to continue.";
  };
  look();
  setInterval(look, 1000);
  setTimeout(reload, 1000 * (live.dataset.state === "overdue" ? Math.max(seconds, 15) : seconds));
}
