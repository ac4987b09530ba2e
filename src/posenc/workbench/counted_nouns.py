"""Counts with their nouns, as sentences have them."""

from __future__ import annotations

from collections.abc import Mapping

SINGULAR: Mapping[str, str] = {"series": "series", "classes": "class", "vertices": "vertex", "meshes": "mesh"}
"""Nouns in the plural whose singular is more than an s shorter."""


def count_of(n: int, nouns: str) -> str:
    """Format a count with a noun in the plural, as stored units are: "1 recording", "76,014 tokens", "1 series"."""
    return f"{n:,} {SINGULAR.get(nouns, nouns.removesuffix('s')) if n == 1 else nouns}"
