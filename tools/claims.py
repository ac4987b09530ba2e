"""The ledger of claims, from the stored results: every claim of every study, judged at every scale that was run.

python tools/claims.py            writes docs/claims.md
python tools/claims.py --check    fails if docs/claims.md is not what the results say
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from posenc.report.document import markdown
from posenc.report.rows import Row, read_csv
from posenc.studies import studies

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "claims.md"
NOTES = (
    "Generated from the CSV files in [results](../results/README.md) by `python tools/claims.py`; nobody edits it.",
    "A claim is *upheld* if every interval lies where the claim and its controls put it, *not upheld* if one lies "
    "wholly outside, else it *cannot be told*. A verdict holds at its scale and no further{scope}",
)


def ledger() -> str:
    parts = []
    for study in studies().values():
        rows: dict[str, list[Row]] = defaultdict(list)
        for path in sorted((ROOT / "results").glob(f"{study.name}-*.csv")):
            for row in read_csv(path):
                rows[row["preset"]].append(row)
        scales = {preset: _distinct(rows[preset]) for preset in study.presets if preset in rows}
        if study.claims and scales:  # nothing claimed, or nothing stored: no ledger
            scope = f": {study.scope}" if study.scope else "."
            notes = [note.format(scope=scope) for note in NOTES]
            beside = {preset: study.beside(preset, found) for preset, found in scales.items()}
            parts.append(markdown(study.claims, scales, notes=notes, title=study.question, beside=beside))
    return "\n".join(parts)


def _distinct(rows: list[Row]) -> list[Row]:
    """Each number once: two stored pages may share runs."""
    return list({(row["unit"], row["metric"]): row for row in rows}.values())


def main() -> int:
    text = ledger()
    if "--check" in sys.argv[1:]:
        if PAGE.read_text(encoding="utf-8") != text:
            print("docs/claims.md is not what results/ says: python tools/claims.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
