"""Stored results of each scheme: pages with its variants, and their ranks on the leaderboard."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from evidence_pages import Ranking

VARIANTS = Path(__file__).parents[2] / "docs" / "site" / "variants.json"


def studies_of_schemes(rankings: Iterable[Ranking]) -> dict[str, list[str]]:
    """Name the stored results of each scheme.

    Args:
        rankings: The tables of the leaderboard.

    Returns:
        Scheme to Markdown items, one for each table that has a variant of it.
    """
    schemes: Mapping[str, Mapping[str, list[str]]] = json.loads(VARIANTS.read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for ranking in rankings:
        of_variants = schemes.get(ranking.study, {})
        by_scheme: dict[str, list[str]] = {}
        for variant in ranking.scores:
            for scheme in of_variants.get(variant, ()):
                by_scheme.setdefault(scheme, []).append(_variant(variant, ranking))
        for scheme, variants in by_scheme.items():
            condition = "" if ranking.condition == "main" else f", {ranking.condition}"
            page = f"[{ranking.study}, {ranking.preset}{condition}](results:{ranking.page})"
            found.setdefault(scheme, []).append(f"* {page}, by {ranking.metric}: {', '.join(variants)}")
    return found


def _variant(name: str, ranking: Ranking) -> str:
    low, high = ranking.ranks.get(name, (0, 0))
    if not high:
        return f"`{name}`"
    rank = str(low) if low == high else f"{low} to {high}"
    return f"`{name}` (rank {rank} of {len(ranking.ranks)})"
