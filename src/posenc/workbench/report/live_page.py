"""Live page: the newest snapshot of each training run, reloaded every few seconds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from pathlib import Path

import numpy as np

from posenc.workbench.report.page import write_text
from posenc.workbench.report.raster_image import encode_png

RELOAD_SECONDS = 2


def snapshot_path(root: Path, key: str) -> Path:
    """Path of the newest snapshot of a run.

    Args:
        root: Folder of the store.
        key: Identity of the run.

    Returns:
        The PNG file below the store's pages. It remains after the run has finished.
    """
    return root / "pages" / "now" / f"{key}.png"


def write_snapshot(root: Path, key: str, frame: np.ndarray) -> None:
    """Write the newest snapshot of a run, atomically.

    A snapshot is for watching only; it is not part of the run's result.

    Args:
        root: Folder of the store.
        key: Identity of the run.
        frame: Image, as in `encode_png`.
    """
    path = snapshot_path(root, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    for abandoned in path.parent.glob(f".{path.name}.*"):  # Left by a process that was killed.
        abandoned.unlink(missing_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(encode_png(frame))
    partial.replace(path)


def write_live_page(path: Path, title: str, snapshots: Mapping[str, str]) -> Path:
    """Write a page that shows snapshots and reloads itself.

    Args:
        path: The HTML file.
        title: Heading of the page.
        snapshots: label -> image file, relative to the page. A file that does not exist yet shows as "not started".

    Returns:
        The path of the page.
    """
    policy = "default-src 'none'; img-src 'self' file:; style-src 'unsafe-inline'"
    figures = "\n".join(
        f'<figure><img src="{escape(file)}" alt="not started"><figcaption>{escape(label)}</figcaption></figure>'
        for label, file in snapshots.items()
    )
    return write_text(
        path,
        f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta http-equiv="refresh" content="{RELOAD_SECONDS}">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }}
main {{ display: grid; gap: 1.5rem; grid-template-columns: repeat(auto-fill, minmax(14rem, 1fr)); }}
figure {{ margin: 0; }}
img {{ width: 100%; image-rendering: pixelated; }}
</style></head>
<body><h1>{escape(title)}</h1>
<p>Newest snapshot of each encoding, first seed. The page with the results is written to the same folder.</p>
<main>
{figures}
</main></body></html>
""",
    )
