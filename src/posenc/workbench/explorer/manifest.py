"""Content of the page: pictures, encodings with their options and, on the site, what was computed of them."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from posenc.lookup.scheme_text import find
from posenc.measure.distance_decay import shown_call
from posenc.scheme import Scheme
from posenc.schemes import catalogue
from posenc.workbench.explorer.code_text import code_of, own_name
from posenc.workbench.explorer.configurations import Configuration, configurations
from posenc.workbench.explorer.options import option_texts, options_of
from posenc.workbench.explorer.pictures import PICTURES, draw, make

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("plots.js", "explorer.js", "schemes.js")
"""Scripts of the page, in their order. The last one is written: it starts the page."""
FIRST = ("RoPE", "GridPE")
"""Encodings that the page shows first."""


def scheme_entry(kind: type[Scheme], computed: Sequence[Configuration] | None = None) -> dict[str, Any]:
    """Describe an encoding for the page.

    Args:
        kind: Its class.
        computed: What the site has of it; None for the local page, which computes any values.

    Returns:
        "label", "options", "start" (values of the shown call) and "configurations" (on the site).

    Raises:
        ValueError: The class cannot be built with its own examples.
    """
    declared = options_of(kind, fine=computed is None)
    options = [
        {
            "name": each.name,
            "kind": each.kind,
            "values": each.values,
            "default": each.default,
            "required": each.required,
        }
        for each in declared
    ]
    start = option_texts(shown_call(kind).options, declared) if computed is None else computed[0].texts
    entry = {"label": own_name(kind.__name__), "options": options, "start": start}
    if computed is not None:
        entry["configurations"] = [{"key": each.key, "options": each.texts} for each in computed]
    return entry


def start_script(schemes: dict[str, Any], first: Sequence[str], *, live: bool) -> str:
    """Write the script that starts the page.

    Args:
        schemes: Name to entry of ``scheme_entry``.
        first: Calls that are shown first.
        live: True if the local server computes the arrays.

    Returns:
        JavaScript.
    """
    pictures = [{"name": name, "title": each.title, "about": each.about} for name, each in PICTURES.items()]
    content = {"live": live, "pictures": pictures, "schemes": schemes, "first": list(first)}
    return f"posencExplorer.start({_json(content)});\n"


def array_file(shown: Configuration) -> str:
    """Compute all pictures of an encoding of the site.

    Args:
        shown: The encoding.

    Returns:
        A classic script that hands them to the page: JSON, compressed by zlib, as base64.
    """
    made = make(shown.call, shown.kind)
    code = "" if shown.kind is not None else code_of(shown.call)
    content = {"code": code, "pictures": {name: draw(made, name) for name in PICTURES}}
    data = base64.b64encode(zlib.compress(_json(content).encode(), 9)).decode("ascii")
    return f"posencExplorer.receive({_json(shown.key)}, {_json(data)});\n"


def write_site_files(folder: Path, kinds: Iterable[type[Scheme]] | None = None) -> int:
    """Write the scripts and arrays of the site's explorer.

    Args:
        folder: Folder of the page.
        kinds: Classes; all schemes by default.

    Returns:
        Number of encodings.
    """
    arrays = folder / "arrays"
    arrays.mkdir(parents=True)
    entries, number = dict[str, Any](), 0
    for kind in catalogue().values() if kinds is None else kinds:
        computed = configurations(kind)
        entries[kind.__name__] = scheme_entry(kind, computed)
        for each in computed:
            (arrays / f"{each.key}.js").write_text(array_file(each), encoding="utf-8")
            number += 1
    for name in ("plots.js", "explorer.js", "explorer.css"):
        (folder / name).write_bytes((ASSETS / name).read_bytes())
    first = [name for name in FIRST if name in entries] or list(entries)[:1]
    (folder / "schemes.js").write_text(start_script(entries, first, live=False), encoding="utf-8")
    return number


def live_script(own: Sequence[str], first: Sequence[str]) -> str:
    """Write the script that starts the local page, with encodings of a user before those of posenc.

    Args:
        own: Names that ``posenc.lookup.own_scheme`` gives the user's encodings.
        first: Calls that are shown first; by default the user's encodings.

    Returns:
        JavaScript.

    Raises:
        ValueError: An encoding of the user cannot be built.
    """
    names = dict.fromkeys([*own, *catalogue()])
    return start_script({name: scheme_entry(find(name)) for name in names}, first or own or FIRST, live=True)


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
