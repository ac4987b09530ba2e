"""Records of the data of a page's runs, and the choice of one among those of a store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from shlex import quote

from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.report.data_panel import describe, notes
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store

CLOUD_DEFAULTS = {"features": "none", "scale": "unit"}
"""Options of the reading of clouds that a command leaves out."""
FLAGS = {
    "text": ("format", "field", "dtype"),
    "recordings": ("fill", "blocks"),
    "series": ("format", "time", "id", "target", "unit"),
    "graphs": ("format",),
    "places": ("format", "coordinates", "geometry", "target", "features", "time", "groups", "unit"),
}
"""Kind of data to the options of its record that are flags of a command."""


def records_of(store: Store, specs: Iterable[RunSpec]) -> list[DatasetRecord]:
    """Records of the data of runs, each once, in the order of the runs.

    Args:
        store: The store.
        specs: The runs.

    Returns:
        The records.
    """
    found = (store.record_of(spec) for spec in specs)
    return list({record.key: record for record in found if record is not None}.values())


def own(store: Store, specs: Iterable[RunSpec]) -> DatasetRecord | None:
    """Record of the user's file that runs are about.

    Args:
        store: The store.
        specs: The runs.

    Returns:
        The record; None for built-in or generated data.
    """
    return next((record for record in records_of(store, specs) if record.own), None)


def sentences(store: Store, specs: Iterable[RunSpec]) -> tuple[str, ...]:
    """Sentences on the data of runs, to print before they start.

    Args:
        store: The store.
        specs: The runs.

    Returns:
        One sentence for each record, then sentences on what the data lack.
    """
    specs = list(specs)
    records = records_of(store, specs)
    return (*dict.fromkeys(map(describe, records)), *notes(records), *_other_names(store, specs))


def _other_names(store: Store, specs: Iterable[RunSpec]) -> tuple[str, ...]:
    """Sentences on data of the user that the store has results of under another name or form."""
    pairs = ((store.record_named_by(spec), store.record_of(spec)) for spec in specs)
    return tuple(
        dict.fromkeys(
            f"{given.name} has the same contents as {kept.name}. Finished results of {kept.name} count, and the page "
            "keeps this name."
            for given, kept in pairs
            if given is not None and kept is not None and given.own and given.name != kept.name
        )
    )


def named_by(store: Store, records: Sequence[DatasetRecord], source: str) -> str:
    """Digest of the data that a user names.

    Args:
        store: The store.
        records: The records to choose from.
        source: Name of the data, NAME-DIGEST6, a digest, or the path of the file or folder.

    Returns:
        The digest; "" if no record fits.

    Raises:
        ValueError: Records of different contents fit; the message lists them.
    """
    fitting = _fitting(store, records, source)
    digests = list(dict.fromkeys(record.digest for record in fitting))
    if len(digests) > 1:
        raise ValueError(f"{source} stands for several data sets of {store.root}. Name one: {options(fitting)}.")
    return digests[0] if digests else ""


def path_in_command(path: Path) -> str:
    """Text of a path in a printed command, quoted for a shell, which the working directory can use.

    Args:
        path: The path.

    Returns:
        The path relative to the working directory if it lies there or if this is shorter; the absolute path otherwise.
    """
    whole = str(path.absolute())
    relative = os.path.relpath(whole)
    inside = relative != os.pardir and not relative.startswith(os.pardir + os.sep)
    return quote(relative if inside or len(relative) < len(whole) else whole)


def source_in_command(store: Store, record: DatasetRecord) -> str:
    """Text of a user's data in a printed command: the newest path where they are or were; without a path their name."""
    paths = [Path(each) for each in reversed(store.records.paths(record.key))]
    path = next((each for each in paths if each.exists()), paths[0] if paths else None)
    return quote(record.name) if path is None else path_in_command(path)


def options(records: Iterable[DatasetRecord]) -> str:
    """List the options that choose data sets, each once, such as "--source docs-1f00c4".

    Data of one name that were read with different flags are followed by these: "--source houses-1f00c4 (--target
    price)".
    """
    by_label = {record.label: record for record in records}
    made = []
    for label, record in sorted(by_label.items()):
        flags = _distinguishing_flags(record, [each for each in by_label.values() if each.name == record.name])
        made.append(f"--source {quote(label)}" + (f" ({flags})" if flags else ""))
    return ", ".join(made)


def _distinguishing_flags(record: DatasetRecord, others: Iterable[DatasetRecord]) -> str:
    """The first flags of a reading that no other one has: "--target price"; "" if flags do not tell them apart."""

    def pairs(each: DatasetRecord) -> dict[str, str]:
        words = reading_flags(each)
        return dict(zip(words[::2], words[1::2], strict=False))  # the last flag may have no value

    rest, made = [pairs(each) for each in others if each.label != record.label], []
    for name, value in pairs(record).items():
        if any(other.get(name) != value for other in rest):
            made.append(f"{name} {value}")
            rest = [other for other in rest if other.get(name) == value]
    return " ".join(made)


def reading_flags(record: DatasetRecord | None) -> list[str]:
    """Flags with which a command reads the user's data of a record again, such as ``["--field", "text"]``."""
    if record is not None and record.kind == "clouds":
        stated = {name: str(record.options.get(name, usual)) for name, usual in CLOUD_DEFAULTS.items()}
        return [word for name in stated if stated[name] != CLOUD_DEFAULTS[name] for word in (f"--{name}", stated[name])]
    if record is not None and record.kind == "images":
        return str(record.options.get("flags", "")).split()
    if record is None or record.kind not in FLAGS:
        return []
    names = FLAGS[record.kind]
    stated = {name: str(record.options[name]) for name in names if name in record.options}
    if record.kind in ("text", "graphs"):
        stated |= record.files | _token_flag(record)
    flags = [word for name, value in stated.items() for word in (f"--{name}", quote(value))]
    return flags + (["--drop"] if record.kind == "recordings" and "drop" in record.options else [])


def _token_flag(record: DatasetRecord) -> dict[str, str]:
    """Flag of the tokens of a text, unless they are those of a file, which the record names."""
    if record.options.get("tokens") == "words":
        return {"tokenizer": f"words:{record.options['words']}"}
    if record.options.get("tokens") == "bytes":
        return {"tokenizer" if "tokenizer" in record.options else "dtype": "bytes"}
    return {}


def _fitting(store: Store, records: Sequence[DatasetRecord], source: str) -> list[DatasetRecord]:
    """Records that a text names: by their path, otherwise by label or digest, otherwise by name."""
    path = Path(source).resolve()
    paths = {record.key: store.records.paths(record.key) for record in records}
    if at_path := [record for record in records if str(path) in paths[record.key]]:
        return at_path
    if labeled := [record for record in records if source in (record.label, record.digest)]:
        return labeled
    by_name = [record for record in records if PurePath(source).name in (record.name, PurePath(record.name).stem)]
    # A file at a path where nothing was read is another file than one of its name that was read elsewhere.
    return [record for record in by_name if not (path.exists() and paths[record.key])]
