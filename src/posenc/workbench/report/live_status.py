"""Status of a live page: the progress of its runs, and the script that reloads it, inserted into a finished page."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Literal

RELIEF = 15.0
"""Seconds that a write of the page may be late, beyond three pauses."""
STYLE = """
#live { border: 2px solid var(--link); border-radius: 6px; padding: .7rem 1rem .2rem; margin: 0 0 1.2rem; }
#live[data-state=stopped], #live[data-state=overdue] { border-color: var(--no); }
#live ul { margin: 0 0 .6rem; color: var(--muted); font-size: .875rem; }
#live .images { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); }
#live figure { margin: 0 0 .6rem; }
#live img { width: 100%; image-rendering: pixelated; }
@media print { #live { display: none; } }
"""


@dataclass(frozen=True, kw_only=True)
class LiveStatus:
    """Status of the runs of a page.

    Attributes:
        state: "running": the page reloads itself. "stopped": the command has ended without the final page.
        summary: One sentence on the progress.
        runs: One line per running run.
        hint: Sentence on the content of the page, or on how to continue.
        written: Time of the write in seconds since 1970.
        pause: Seconds until the page is written and reloaded again.
        images: Label to PNG file of the newest snapshots; files that do not exist are left out.
    """

    state: Literal["running", "stopped"]
    summary: str
    runs: Sequence[str] = ()
    hint: str = ""
    written: float
    pause: float
    images: Mapping[str, Path] = field(default_factory=dict)

    @property
    def due(self) -> float:
        """Time after which the command has died, unless the page was written again."""
        return self.written + 3 * self.pause + RELIEF


def insert_status(page: str, status: LiveStatus) -> str:
    """Insert a status into the HTML of a page, between its header and its panels.

    Args:
        page: HTML from ``render_page``.
        status: The status.

    Returns:
        The HTML. It needs no server. Without scripts a running page is reloaded by its head.
    """
    running, refresh = status.state == "running", f"{max(1, round(status.pause))}"
    head = f'<noscript><meta http-equiv="refresh" content="{refresh}"></noscript>\n' if running else ""
    head += f"<style>{STYLE}</style>\n"
    script = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
    page = page.replace("</head>", f"{head}</head>", 1)
    page = page.replace('<main id="main"', f'{_section(status)}<main id="main"', 1)
    before, _, after = page.rpartition("</body>")
    return f"{before}<script>\n{{\n{script}}}\n</script>\n</body>{after}"


def _section(status: LiveStatus) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(status.written))
    word = f"Running, updated {at}." if status.state == "running" else f"Stopped at {at}."
    runs = "".join(f"<li>{escape(line)}</li>" for line in status.runs)
    images = "".join(_image(label, path) for label, path in status.images.items())
    runs = f"<ul>{runs}</ul>" if runs else ""
    images = f'<div class="images">{images}</div>' if images else ""
    return (
        f'<aside id="live" aria-label="Progress" data-state="{status.state}" data-written="{at}" '
        f'data-due="{status.due:.1f}" data-pause="{status.pause:.1f}">\n'
        f'<p><b class="state">{word}</b> {escape(status.summary)}</p>\n'
        f"{runs}\n{images}\n"
        f'<p class="note hint">{escape(status.hint)}</p>\n'
        "</aside>\n"
    )


def _image(label: str, path: Path) -> str:
    try:
        data = base64.b64encode(path.read_bytes()).decode()
    except OSError:  # The run has not written a snapshot yet.
        return ""
    name = escape(label)
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="newest snapshot of {name}">'
        f"<figcaption>{name}</figcaption></figure>"
    )
