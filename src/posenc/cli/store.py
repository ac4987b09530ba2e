"""Stores as files: ``store pack``, ``merge``, ``verify``, ``compact`` and ``gc``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from posenc.cli.grammar import Positional, arg
from posenc.workbench import request_checks


def pack(
    to: Annotated[Positional[Path], arg(metavar="DIR")],
    study: str | None = None,
    preset: str | None = None,
    out: Path = Path("runs"),
    array_bytes: int = 4096,
    force: bool = False,
) -> int:
    """Write finished results, without weights, as files small enough to commit.

    One file for each study and preset, STUDY-PRESET.pack, of at most 1 MB; more runs go into further files. Merge them
    into any store: posenc store merge DIR. Larger arrays are left out, and a panel that needs one is then not drawn.

    For example:

    posenc store pack results

    posenc store pack results --study latin-squares --preset standard --out runs

    Args:
        to: Folder that receives the packs.
        study: Only this study.
        preset: Only this preset.
        out: The store.
        array_bytes: Largest array that is written, in bytes.
        force: Replace packs that exist.
    """
    if array_bytes < 0:
        raise ValueError(f"--array-bytes is a number of bytes, at least 0; got {array_bytes}. As --array-bytes 32768.")
    request_checks.refuse_no_store(out)
    request_checks.refuse_folder(to, "DIR")
    from posenc.workbench.storage import packs
    from posenc.workbench.storage.store import Store

    for path in packs.pack(Store(out, create=False), to, study, preset, array_bytes=array_bytes, force=force):
        print(f"{path}  {path.stat().st_size:,} bytes, {len(packs.read(path)[1])} runs")
    return 0


def merge(
    source: Annotated[Positional[Path], arg(metavar="FILE|DIR")],
    out: Path = Path("runs"),
) -> int:
    """Bring a pack, a folder of packs or another store into a store.

    A run that is stored already with an equal result stays one run. Where the results differ both are kept, and posenc
    results shows them. A merged run counts as finished; draw its page: posenc report STUDY --out STORE.

    For example:

    posenc store merge results/latin-squares-standard.pack --out runs

    Args:
        source: A pack, a folder of packs, or another store.
        out: The store; made if absent.
    """
    request_checks.refuse_pack(source)
    request_checks.refuse_folder(out, "--out")
    from posenc.workbench.request_execution import merge_into

    print(merge_into(out, source))
    return 0


def verify(out: Path = Path("runs"), set_aside: bool = False) -> int:
    """Compare every file of every run with the digest that was stored when the run finished.

    The damaged runs are named with the reason. They are left out of all results, and the command that made them trains
    them again. Labels, records of data and digests of code are compared too. The exit status is 1 if one is damaged.

    For example:

    posenc store verify

    posenc store verify --set-aside --out runs

    Args:
        out: The store.
        set_aside: Move damaged runs to the folder "damaged" of the store, so that a run whose weights are damaged is
            trained again too.
    """
    from posenc.workbench.storage.result_checks import damage_lines, move_damaged_file
    from posenc.workbench.storage.store import Store

    store = Store(out, create=False)
    right, damaged = store.verify()
    print(f"{right} of {right + len(damaged)} runs in {store.root} are as stored.")
    for line in damage_lines(store):
        print(line)
    files = store.damaged_files()
    for damage in damaged if set_aside else ():
        print(f"{damage.name} is now in {store.set_aside(damage.name, damage.reason)}")
    for path, _ in files if set_aside else ():
        print(f"{path.relative_to(store.root)} as it was is now in {move_damaged_file(store, path)}")
    return 1 if damaged or files else 0


def compact(out: Path = Path("runs")) -> int:
    """Move the files of finished runs into few archives, for stores of many runs and for network disks.

    Each run has five files of its own before, and none after. The archives hold the files byte by byte, weights too.
    So posenc store verify compares the same digests, and unzip restores the folders. With DuckDB all metrics and
    curves are also written as Parquet. Other commands may use the store meanwhile. A killed compaction loses nothing.

    For example:

    posenc store compact --out runs

    Args:
        out: The store.
    """
    request_checks.refuse_no_store(out)
    from posenc.workbench.storage.compaction import compact as compact_store
    from posenc.workbench.storage.store import Store

    store = Store(out, create=False)
    counts = compact_store(store)
    print(f"{counts.runs} runs of {store.root} are now in {counts.packs} new packs.")
    if counts.folders:
        print(
            f"{counts.folders} keep folders of their own: damaged runs (posenc store verify names them), runs with "
            "several results, and runs of early versions."
        )
    return 0


def gc(out: Path = Path("runs")) -> int:
    """Remove checkpoints and locks of finished runs. Unfinished runs keep theirs, and no result is removed.

    For example:

    posenc store gc --out runs

    Args:
        out: The store.
    """
    request_checks.refuse_no_store(out)
    from posenc.workbench.storage.compaction import remove_leftovers
    from posenc.workbench.storage.store import Store

    freed = remove_leftovers(Store(out, create=False))
    print(
        f"Removed from {out}: checkpoints of {freed.checkpoints} finished runs ({freed.size:,} bytes), "
        f"{freed.locks} locks."
    )
    return 0
