"""A page to look at while something trains: each unit's newest picture, shown anew every few seconds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np

from posenc.report.page import write_text
from posenc.report.pixels import png

SECONDS = 2


def newest(root: Path, key: str) -> Path:
    """Where a unit's picture lies: in the store, among its pages, also after the unit is finished."""
    return root / "pages" / "now" / f"{key}.png"


def keep_newest(root: Path, key: str, frame: np.ndarray) -> None:
    """Puts a unit's newest picture there. It is for somebody who watches: a result is what the unit returns."""
    path = newest(root, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.name}.*"):  # by one that was killed
        left.unlink(missing_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(png(frame))
    partial.replace(path)


def watch(path: Path, title: str, pictures: Mapping[str, str]) -> Path:
    """Writes the page; pictures: label to its file, relative to the page. One that is not there yet shows its label.

    It loads nothing but these files, and reloads itself.
    """
    policy = "default-src 'none'; img-src 'self' file:; style-src 'unsafe-inline'"
    shown = "\n".join(
        f'<figure><img src="{escape(file)}" alt="not begun"><figcaption>{escape(label)}</figcaption></figure>'
        for label, file in pictures.items()
    )
    return write_text(
        path,
        f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta http-equiv="refresh" content="{SECONDS}">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }}
main {{ display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); }}
figure {{ margin: 0; }}
img {{ width: 100%; image-rendering: pixelated; }}
</style></head>
<body><h1>{escape(title)}</h1>
<p>As it stands now, first seed of each encoding. The finished page lies beside this one.</p>
<main>
{shown}
</main></body></html>
""",
    )
