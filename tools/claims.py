"""Claims document from the stored results: every claim of every study, judged at every scale that was run.

python tools/claims.py            writes docs/claims.md
python tools/claims.py --check    fails if docs/claims.md is not what the results say
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from posenc.workbench.report.claims_by_paper import ClaimAtScales, claims_by_paper
from posenc.workbench.report.claims_document import claims_markdown
from posenc.workbench.report.claims_table import judge_claims
from posenc.workbench.report.result_rows import Row, read_csv
from posenc.workbench.storage.packs import ENDING, merge
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import studies
from posenc.workbench.studies.shared.claim_commands import documented_commands
from posenc.workbench.studies.shared.study import Study

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "claims.md"
NOTES = (
    "Generated from the CSV files and packs in [results](../results/README.md) by `python tools/claims.py`; nobody "
    "edits it. A verdict holds at its scale only{scope}",
    "A number that one stored file can give alone comes from that file: its runs belong together.",
)


BY_PAPER = (
    "Find a claim by the paper that makes it. A claim has a row for each scale at which it was measured. Its section, "
    "below, gives the claimed ranges, the controls and the quotation. A verdict includes the controls.",
    "DIR is the folder of real data. `posenc data` lists the data sets and where each is to be had.",
)


def document() -> str:
    parts, entries = [], list[ClaimAtScales]()
    for study in studies().values():
        scales = rows_of_study(study)
        if study.claims and scales:  # Otherwise nothing is claimed or nothing is stored.
            scope = f": {study.scope}" if study.scope else "."
            notes = [note.format(scope=scope) for note in NOTES]
            beside = {preset: study.published(preset, found) for preset, found in scales.items()}
            commands = documented_commands(study, scales, {preset: reads_data(study, preset) for preset in scales})
            entries += claims_at_scales(study, scales, commands)
            about = [f"Cost of the presets: {'; '.join(f'{each}: {study.presets[each].about}' for each in scales)}."]
            parts.append(
                claims_markdown(
                    study.claims,
                    scales,
                    notes=[*notes, *about],
                    title=study.question,
                    tables=beside,
                    commands=commands,
                    files=files_of_study(study),
                )
            )
    return "\n".join([claims_by_paper(entries, BY_PAPER), *parts])


def rows_of_study(study: Study) -> dict[str, list[Row]]:
    """Stored rows of a study by preset, from the CSV files and the packs in results/.

    A model that was trained twice counts once: as on the stored page that a claim names, else in the first file.
    """
    names = ("setting", "scheme", "seed", "metric")
    rows = dict[str, list[Row]]()
    for preset, files in files_of_study(study).items():
        found = dict[tuple[object, ...], Row]()
        for row in (row for some in files for row in some):
            found.setdefault(tuple(row[name] for name in names), row)
        rows[preset] = list(found.values())
    return rows


def files_of_study(study: Study) -> dict[str, list[Sequence[Row]]]:
    """Stored rows of a study by preset and file: first the files of the pages that claims name, packs last."""
    return _files_of_study(study.name)


@functools.cache
def _files_of_study(name: str) -> dict[str, list[Sequence[Row]]]:
    study, results = studies()[name], ROOT / "results"
    pages = {page.stem for preset in study.presets if (page := stored_page(study, preset))}
    tables = sorted(results.glob(f"{study.name}-*.csv"), key=lambda path: (path.stem not in pages, path))
    files = [*map(read_csv, tables), *map(_rows_of_pack, sorted(results.glob(f"{study.name}-*{ENDING}")))]
    by_preset: dict[str, list[Sequence[Row]]] = {
        preset: [some for rows in files if (some := [row for row in rows if row["preset"] == preset])]
        for preset in study.presets
    }
    return {preset: some for preset, some in by_preset.items() if some}


def claims_at_scales(
    study: Study, scales: Mapping[str, Sequence[Row]], commands: Mapping[str, Mapping[str, Sequence[str]]]
) -> list[ClaimAtScales]:
    """Claims of a study with their verdicts, pages, commands and times."""
    files = files_of_study(study)
    judged = {preset: judge_claims(study.claims, rows, files=files[preset]) for preset, rows in scales.items()}
    pages = {
        claim.panel: {
            preset: f"../results/{page.name}" for preset in scales if (page := stored_page(study, preset, claim.panel))
        }
        for claim in study.claims
    }
    times = {preset: study.presets[preset].about.rpartition(": ")[2] for preset in scales}
    return [
        ClaimAtScales(
            claim,
            {preset: of_preset[place] for preset, of_preset in judged.items()},
            pages[claim.panel],
            commands.get(claim.name, {}),
            times,
        )
        for place, claim in enumerate(study.claims)
    ]


def stored_page(study: Study, preset: str, panel: str = "") -> Path | None:
    """Stored page of a preset; of several that of the panel alone, then that with all panels, then the first."""
    pages = sorted((ROOT / "results").glob(f"{study.name}-{preset}*.html"))
    if panel and (alone := ROOT / "results" / f"{study.name}-{preset}-{panel}.html") in pages:
        return alone
    whole = [page for page in pages if page.stem in (f"{study.name}-{preset}-all", f"{study.name}-{preset}")]
    return (whole or pages or [None])[0]


def reads_data(study: Study, preset: str) -> bool:
    """True if a stored page or pack of a preset names a command with ``--data``."""
    results = ROOT / "results"
    pages = (path.read_text(encoding="utf-8") for path in sorted(results.glob(f"{study.name}-{preset}*.html")))
    if any(re.search(rf"posenc run {study.name} [^<]*--data", page) for page in pages):
        return True
    table = (results / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in table if line.startswith(f"| {study.name}-{preset}.")]
    return any(re.search(r"`posenc run [^`]*--data", line) for line in rows)


def _rows_of_pack(path: Path) -> Sequence[Row]:
    with TemporaryDirectory() as folder:
        store = Store(Path(folder) / "store")
        merge(store, path)
        return store.results()


def main() -> int:
    text = document()
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
