"""Time of the explorer in headless Chromium: to the first picture from the disk, and from a dial to the drawing.

    python benchmarks/explorer.py --out results/explorer-cpu.json

The page of the site is opened as a file, with the arrays of two schemes. The first picture counts from the start of the
navigation until the frame after its SVG. Then the local server computes: the dial of RoPE's base is moved by one step,
and the time counts until the frame after the drawing of logits by distance, which comes first, and until that of the
last picture shown. Before anything is timed the drawing is compared with the library's logits.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from command import begin, keep, met, options
from posenc.lookup.scheme_text import parse
from posenc.measure.distance_decay import logit_by_distance
from posenc.schemes import catalogue
from posenc.workbench.explorer.manifest import FIRST, live_script, write_site_files
from posenc.workbench.explorer.pictures import DISTANCES, draw, make
from posenc.workbench.explorer.server import Explorer, local_page

FIRST_AIM, DIAL_AIM = 1.0, 0.150
"""Seconds."""
FRAME = """(picture) => new Promise((resolve) => {
  const drawn = () => document.querySelector(`[data-picture=${picture}] svg`);
  const look = () => drawn() ? requestAnimationFrame(() => resolve(performance.now())) : setTimeout(look, 1);
  look();
})"""
DIAL = """({step, pictures}) => new Promise((resolve) => {
  const dial = document.getElementById("explorer-0-base"), took = {}, start = performance.now();
  for (const picture of pictures) {
    const cell = document.querySelector(`[data-picture=${picture}] .explorer-row`).children[0];
    const watch = new MutationObserver(() => {
      watch.disconnect();
      requestAnimationFrame(() => {
        took[picture] = performance.now() - start;
        if (Object.keys(took).length === pictures.length) resolve(took);
      });
    });
    watch.observe(cell, {childList: true});
  }
  dial.value = Number(dial.value) + step;
  dial.dispatchEvent(new Event("input"));
})"""


def main() -> int:
    chosen = begin(options("Time of the explorer in Chromium.", 21))
    check()
    first, dial = measure(chosen.rounds)
    by_picture = {name: statistics.median(each[name] for each in dial) for name in dial[0]}
    figures = {
        "first picture from disk": statistics.median(first),
        "dial to first drawing": statistics.median(min(each.values()) for each in dial),
        "dial to last drawing": statistics.median(max(each.values()) for each in dial),
    }
    aims = {"first picture from disk": FIRST_AIM, "dial to first drawing": DIAL_AIM}
    for name, seconds in figures.items():
        aim = f" (aim {aims[name] * 1000:.0f} ms, {met(seconds <= aims[name])})" if name in aims else ""
        print(f"{name}: {seconds * 1000:.0f} ms{aim}")
    worst = {"first picture from disk": max(first), "dial to first drawing": max(min(each.values()) for each in dial)}
    keep(chosen, rounds=chosen.rounds, aims=aims, median_seconds=figures, largest_seconds=worst, by_picture=by_picture)
    return int(any(figures[name] > aim for name, aim in aims.items()))


def check() -> None:
    """Refuse to time a drawing that is not the library's."""
    shown = make(parse("RoPE(64)"))
    drawn = draw(shown, "kernel")["drawings"][0]["series"][0]["y"]
    wanted = [row["logit"] for row in logit_by_distance(shown.scheme, DISTANCES)]
    if max(abs(one - other) for one, other in zip(drawn, wanted, strict=True)) > 1e-5:
        raise SystemExit("the arrays of the explorer are not those of the library.")


def measure(rounds: int) -> tuple[list[float], list[dict[str, float]]]:
    """Seconds to the first picture, and seconds from a dial to each picture."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise SystemExit("no Chromium on the path; install the package chromium.")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        page = Path(folder) / "explorer"
        write_site_files(page, [catalogue()[name] for name in FIRST])
        (page / "index.html").write_text(local_page().replace('<link rel="stylesheet" href="page.css">', ""))
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        first = [_first_picture(browser, page / "index.html") for _ in range(rounds + 1)][1:]
        with Explorer(live_script([], []), 0) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            dial = _dials(browser, server.address, rounds)
            server.shutdown()
        browser.close()
    return first, dial


def _first_picture(browser: Any, path: Path) -> float:
    page = browser.new_page()
    page.goto(f"file://{path}", wait_until="commit")
    seconds = page.evaluate(FRAME, "kernel") / 1000
    page.close()
    return seconds


def _dials(browser: Any, address: str, rounds: int) -> list[dict[str, float]]:
    page = browser.new_page()
    page.goto(address)
    pictures = ["kernel", "map", "values", "frequencies"]
    page.wait_for_load_state("networkidle")
    found = []
    for turn in range(rounds + 1):
        took = page.evaluate(DIAL, {"step": 1 if turn % 2 else -1, "pictures": pictures})
        found.append({name: milliseconds / 1000 for name, milliseconds in took.items()})
    page.close()
    return found[1:]


if __name__ == "__main__":
    sys.exit(main())
