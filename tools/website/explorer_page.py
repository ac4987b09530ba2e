"""Page of the explorer, with the arrays of all encodings that it shows."""

from __future__ import annotations

from pathlib import Path

from posenc.workbench.explorer.manifest import ASSETS, SCRIPTS, write_site_files

PAGE = """---
hide-toc: true
---

# Explorer

Choose up to three encodings, turn their options, and see the effect. All values were computed by posenc when this site
was built: every declared example of every scheme, and a few values of each option. `posenc explore` serves the same
page on your machine for any values and for [a scheme of your own](../documents/explorer.md).

```{raw} html
<link rel="stylesheet" href="explorer.css">
BODY
SCRIPTS
```
"""


def write_explorer_page(pages: Path) -> int:
    """Write the page, its scripts and the arrays.

    Args:
        pages: Folder of the pages of the site.

    Returns:
        Number of encodings.
    """
    folder = pages / "explorer"
    folder.mkdir()
    body = (ASSETS / "explorer.html").read_text(encoding="utf-8").strip()
    scripts = "\n".join(f'<script src="{name}"></script>' for name in SCRIPTS)
    (folder / "index.md").write_text(PAGE.replace("BODY", body).replace("SCRIPTS", scripts), encoding="utf-8")
    return write_site_files(pages / "extra" / "explorer")
