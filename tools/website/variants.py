"""Schemes of the variants of all studies, docs/site/variants.json, which the pages of schemes read.

    python tools/website/variants.py --data DIR           writes it
    python tools/website/variants.py --data DIR --check   fails if it is not what the studies plan
    python tools/website/variants.py --data DIR --studies language points

A study plans its runs from its data, which the site is built without; so the file is committed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from posenc.schemes import catalogue
from posenc.workbench import Request, Store, Study, all_studies

PAGE = Path(__file__).parents[2] / "docs" / "site" / "variants.json"
PRESETS = ("quick", "standard")
WORD = re.compile(r"[A-Za-z_]\w*")


def schemes_of_variants(data: Path, studies: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Plan every panel of every study, and read which schemes the settings of each run name.

    Args:
        data: Folder of real data.
        studies: Names of the studies.

    Returns:
        Study to variant to schemes.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for name in studies:
        study, variants = all_studies()[name], found.setdefault(name, {})
        for variant, schemes in _planned(study, data):
            variants[variant] = sorted({*variants.get(variant, ()), *schemes})
    return found


def _planned(study: Study, data: Path) -> Iterator[tuple[str, set[str]]]:
    known = set(catalogue())
    with tempfile.TemporaryDirectory() as folder:
        for preset in PRESETS:
            if preset in study.presets:
                request = Request(preset=preset, panels=tuple(study.panels), seeds=(0,), data=data)
                for run in study.plan(request, Store(folder)):
                    words = {word for text in _texts(run.settings.get("row")) for word in WORD.findall(text)}
                    yield run.variant, words & known


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


def main() -> int:
    """Write or check the file."""
    parser = argparse.ArgumentParser(description="Schemes of the variants of all studies.")
    parser.add_argument("--data", type=Path, required=True, help="folder of real data")
    parser.add_argument("--check", action="store_true", help="fail if the file is outdated")
    parser.add_argument("--studies", nargs="+", default=list(all_studies()), help="only these; the others stay")
    chosen = parser.parse_args()
    old = json.loads(PAGE.read_text(encoding="utf-8"))
    new = {name: found for name, found in old.items() if name in all_studies()}
    new |= schemes_of_variants(chosen.data, chosen.studies)
    if chosen.check:
        if old != new:
            print(f"{PAGE.name} is outdated: python tools/website/variants.py --data DIR", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(json.dumps(new, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
