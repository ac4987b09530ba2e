"""Stores as files: ``store pack``, ``store merge`` and ``store verify``."""

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
    force: bool = False,
) -> int:
    """Write finished results, without weights, as files small enough to commit.

    One file for each study and preset, STUDY-PRESET.pack, of at most 1 MB; more runs go into further files. Merge them
    into any store: posenc store merge DIR.

    For example:

    posenc store pack results

    posenc store pack results --study latin-squares --preset standard --out runs

    Args:
        to: Folder that receives the packs.
        study: Only this study.
        preset: Only this preset.
        out: The store.
        force: Replace packs that exist.
    """
    request_checks.refuse_no_store(out)
    request_checks.refuse_folder(to, "DIR")
    from posenc.workbench.storage import packs
    from posenc.workbench.storage.store import Store

    for path in packs.pack(Store(out, create=False), to, study, preset, force=force):
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
