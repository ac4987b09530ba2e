"""Puzzle files: the authors' CSV format, and one ``.npz`` file for a whole data set.

The CSV format is that of github ljhearne/LSTNN_public, with columns ``ID, LST_num, condition, puzzles, solutions``. The
condition is ``Binary``, ``Ternary`` or ``Quaternary`` (classes 1, 2, 3). The puzzle is 16 digits, row by row: 0 blank,
1-4 symbols, 5 the probe. Every stated solution and class is computed again and must agree.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path

import numpy as np

from posenc.workbench.files.array_files import ArrayFile, open_arrays
from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.files.user_files import csv_lines, csv_rows, read_text, require_file
from posenc.workbench.tasks.latin_squares.generator import stratified_order
from posenc.workbench.tasks.latin_squares.puzzles import (
    FORMAT,
    Dataset,
    Puzzles,
    clue_counts,
    jaccard_distant,
    puzzle_statistics,
)
from posenc.workbench.tasks.latin_squares.squares import (
    Rule,
    check_rule,
    classify_puzzles,
    parse_puzzle,
    solve_puzzles,
    unclassified_reason,
    unsolved_reason,
)

CONDITIONS = ("Binary", "Ternary", "Quaternary")
GENERATED_FILES = ("gen_binary.csv", "gen_ternary.csv", "gen_quaternary.csv")
HUMAN_FILE = "val108.csv"
_COLUMNS = ("ID", "LST_num", "condition", "puzzles", "solutions")
_REQUIRED_COLUMNS = ("condition", "puzzles", "solutions")
CSV_MEMORY = 40
"""Bytes of memory per byte of a table while its cells are separate texts."""
_SPLITS = ("train", "iid", "ood")


def write_csv(puzzles: Puzzles, path: str | Path) -> None:
    """Write puzzles in the authors' format, numbered from 0, for ``read_csv``."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for number, (puzzle, answer, kind) in enumerate(zip(puzzles.strings(), puzzles.answer, puzzles.kind, strict=True)):
        writer.writerow((number, "", CONDITIONS[kind - 1], puzzle, answer))
    _write(Path(path), text.getvalue().encode())


def read_csv(path: str | Path, rule: Rule = "authors") -> Puzzles:
    """Read the puzzles of one file in the authors' format.

    Args:
        path: The file.
        rule: Definition of the classes, by which the column ``condition`` must agree with the puzzle.

    Raises:
        ValueError: A column is missing, ``classify_puzzle`` refuses a puzzle, or a stated condition or solution differs
            from what the clues imply. The message has the file name, the line number and the reason.
    """
    check_rule(rule)
    path = Path(path)
    lines, rows = _csv_rows(path)
    cells = np.zeros((len(rows), 16), dtype=np.uint8)
    for place, (line, (condition, puzzle, solution)) in enumerate(zip(lines, rows, strict=True)):
        try:
            cells[place] = parse_puzzle(puzzle)
        except ValueError as error:
            raise ValueError(f"{path.name}, line {line}: {error}") from None
        if condition not in CONDITIONS:
            raise ValueError(f"{path.name}, line {line}: the condition is one of {CONDITIONS}; got {condition!r}.")
        if solution not in ("1", "2", "3", "4"):
            raise ValueError(f"{path.name}, line {line}: the solution is one symbol, 1 to 4; got {solution!r}.")
    stated_kind = np.array([CONDITIONS.index(row[0]) + 1 for row in rows], dtype=np.uint8)
    stated_answer = np.array([row[2] for row in rows]).astype(np.uint8)
    answer, kind = solve_puzzles(cells), classify_puzzles(cells, rule)
    for bad in np.flatnonzero((answer != stated_answer) | (kind != stated_kind))[:1]:
        if not answer[bad]:
            reason = unsolved_reason(cells[bad])
        elif answer[bad] != stated_answer[bad]:
            reason = (
                f"the file states solution {stated_answer[bad]}, but puzzle {rows[bad][1]!r} implies {answer[bad]}."
            )
        elif not kind[bad]:
            reason = unclassified_reason(cells[bad], rule)
        else:
            is_kind = CONDITIONS[kind[bad] - 1]
            reason = f"the file states {rows[bad][0]}, but puzzle {rows[bad][1]!r} is {is_kind} by the rule {rule!r}."
        raise ValueError(f"{path.name}, line {lines[bad]}: {reason}")
    return Puzzles(cells, answer, kind)


def _csv_rows(path: Path) -> tuple[list[int], list[tuple[str, str, str]]]:
    """Line number and required columns of every row."""
    text = read_text(path, CSV_MEMORY, f"a table of puzzles with {', '.join(_REQUIRED_COLUMNS)}")
    table = csv_rows(csv_lines(text), path)
    header = table[0][1] if table else []
    for name in _REQUIRED_COLUMNS:
        if name not in header:
            raise ValueError(
                f"{path.name}, line 1: there is no column {name!r}; the columns are {', '.join(_COLUMNS)}, "
                f"and this line reads {','.join(header)!r}."
            )
    places = [header.index(name) for name in _REQUIRED_COLUMNS]
    lines, rows = [], []
    for line, row in table[1:]:
        if len(row) != len(header):
            raise ValueError(f"{path.name}, line {line}: {len(row)} columns stand under a header of {len(header)}.")
        condition, puzzle, solution = (row[place].strip() for place in places)
        lines.append(line)
        rows.append((condition, puzzle, solution))
    if not rows:
        raise ValueError(f"{path.name} has a header and no puzzles; each further line is one puzzle.")
    return lines, rows


def load_authors(folder: str | Path, *, seed: int = 0) -> Dataset:
    """Load the authors' puzzles, generated ones as train and iid, and the human items as ood.

    Nine in ten generated puzzles are for training and one in ten is iid. The files give 8,100, 900 and 108 puzzles. The
    generated puzzles are put in a stratified order, and the first tenth is iid, so each class gives a tenth. (The
    authors split by scikit-learn with another random order, in the same shares.)

    Args:
        folder: Folder with ``gen_binary.csv``, ``gen_ternary.csv``, ``gen_quaternary.csv`` (3,000 each) and
            ``val108.csv``.
        seed: Seed of the order.

    Raises:
        ValueError: A file is missing, or an error of ``read_csv``.
    """
    folder = Path(folder)
    missing = [name for name in (*GENERATED_FILES, HUMAN_FILE) if not (folder / name).is_file()]
    if missing:
        raise ValueError(
            f"{folder} lacks {', '.join(missing)}; the Latin squares of github ljhearne/LSTNN_public are the files "
            f"{', '.join(GENERATED_FILES)} and {HUMAN_FILE}."
        )
    parts = [read_csv(folder / name) for name in GENERATED_FILES]
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in ("cells", "answer", "kind")]
    generated = Puzzles(*columns)
    noise = np.random.Philox(seed).random_raw(len(generated))
    order = stratified_order(generated.kind, np.zeros(len(generated), dtype=np.int64), noise)
    iid, train = np.split(order, [len(generated) // 10])
    splits = {"train": generated.take(train), "iid": generated.take(iid), "ood": read_csv(folder / HUMAN_FILE)}
    far = bool(jaccard_distant(generated, splits["ood"], "one-hot").all())
    shown = clue_counts(generated)
    arguments = {
        "seed": seed,
        "rule": "authors",
        "jaccard": "one-hot" if far else None,
        "clues": [int(shown.min()), int(shown.max())],
    }
    return Dataset(**splits, manifest={**puzzle_statistics(splits), "source": "authors", "arguments": arguments})


def save_dataset(dataset: Dataset, path: str | Path) -> None:
    """Write a data set as one ``.npz`` file: byte arrays ``train_cells``, ``train_answer``, ... and ``manifest.json``.

    The same data set gives the same bytes on every machine (not compressed, 18 bytes per puzzle). The file is written
    under a temporary name and then renamed, so a crash leaves the old file or none.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        manifest = json.dumps(dataset.manifest, indent=1, sort_keys=True)
        archive.writestr(_member("manifest.json"), manifest)
        for name, part in dataset.splits().items():
            for column in ("cells", "answer", "kind"):
                array = io.BytesIO()
                np.save(array, getattr(part, column), allow_pickle=False)
                archive.writestr(_member(f"{name}_{column}.npy"), array.getvalue())
    _write(Path(path), buffer.getvalue())


def _member(name: str) -> zipfile.ZipInfo:
    """Member of the archive without date, permissions and operating system of the writer."""
    member = zipfile.ZipInfo(name)
    member.create_system = 3
    return member


def load_dataset(path: str | Path) -> Dataset:
    """Load a file of ``save_dataset``. Raises ValueError for another file, a newer format and damaged contents."""
    path = Path(path)
    require_file(path, "a file of save_dataset")
    try:
        with open_arrays(path) as archive:
            manifest = json.loads(archive.content("manifest.json", 30))
            version, task = manifest["format"], manifest["task"]
            readable = task == "latin-squares" and version in range(1, FORMAT + 1)
            parts = {name: _load_split(archive, name) for name in _SPLITS if readable}
            digests = dict(manifest.get("digests", {}))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is damaged or no data set of Latin squares ({error}).") from error
    if task != "latin-squares":
        raise ValueError(f"{path.name} holds a data set of the task {task!r}; this one is 'latin-squares'.")
    if not readable:
        raise ValueError(f"{path.name} is of format {version}; this posenc reads up to {FORMAT}. Update posenc.")
    for name, part in parts.items():
        if part.digest() != digests.get(name):
            raise ValueError(f"{path.name} is damaged: its {name} puzzles are not those of its manifest.")
    return Dataset(**parts, manifest=manifest)


def _load_split(archive: ArrayFile, name: str) -> Puzzles:
    cells = archive.array(f"{name}_cells", (None, 16), "u")
    return Puzzles(cells, *(archive.array(f"{name}_{column}", (None,), "u") for column in ("answer", "kind")))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
