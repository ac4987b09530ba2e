"""Colors of figures on the site: those of the pages of results, in the light and the dark theme."""

from __future__ import annotations

import re
from pathlib import Path

from posenc.workbench.report import page

ROOTS = re.compile(r":root \{(.*?)\}", re.S)

THEME = (
    "--color-background-primary: var(--background); --color-foreground-primary: var(--foreground); "
    "--color-brand-primary: var(--link); --color-brand-content: var(--link); --color-brand-visited: var(--link);"
)
"""Colors of the theme of the site, from those of the pages of results."""


def color_sheet() -> str:
    """Write the style sheet that defines the colors.

    Returns:
        The sheet, for the themes of furo.

    Raises:
        ValueError: The style sheet of the pages of results has not two themes.
    """
    sheet = (Path(page.__file__).parent / "page.css").read_text(encoding="utf-8")
    themes = ROOTS.findall(sheet)
    if len(themes) != 2:
        raise ValueError(f"page.css has {len(themes)} blocks of colors; the site needs a light and a dark one.")
    light, dark = (f"{' '.join(each.split())} {THEME}" for each in themes)
    return (
        f"body {{ {light} }}\n"
        f"body[data-theme=dark] {{ {dark} }}\n"
        f"@media (prefers-color-scheme: dark) {{ body:not([data-theme=light]) {{ {dark} }} }}\n"
    )
