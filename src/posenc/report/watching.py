"""A page to look at while something trains: pictures that lie beside checkpoints, shown anew every few seconds."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path

from posenc.report.page import write_text

SECONDS = 2


def watch(path: Path, title: str, pictures: Mapping[str, str]) -> Path:
    """Writes the page; pictures: label to its file, relative to the page. One that is not there yet shows its label.

    It loads nothing but these files, and reloads itself.
    """
    policy = "default-src 'none'; img-src 'self' file:; style-src 'unsafe-inline'"
    shown = "\n".join(
        f'<figure><img src="{escape(file)}" alt="not begun, or done"><figcaption>{escape(label)}</figcaption></figure>'
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
<p>While it trains, first seed of each encoding. The finished page lies beside this one.</p>
<main>
{shown}
</main></body></html>
""",
    )
