"""``posenc doctor``: what this machine has, and what to install for what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from posenc.cli import index
from posenc.cli.grammar import arg
from posenc.cli.text_table import entries
from posenc.version import __version__


def doctor(data: Annotated[Path | None, arg(metavar="DIR")] = None, out: Path = Path("runs")) -> int:
    """Print versions, extras, cores, memory, GPU, data and write access, and what to install for what is missing.

    The exit code is 1 if posenc cannot train here: a required package is missing, or the store is not writable.

    For example:

    posenc doctor

    posenc doctor --data DIR --out runs

    Args:
        data: Folder of real data. Default: $POSENC_DATA.
        out: The store.
    """
    missing = [name for name in required_packages() if not _version(name)]
    writable, store = _store(out)
    sections = (
        ("versions", _versions()),
        ("machine", _machine()),
        ("extras", _extras()),
        ("data", _data(data)),
        ("store", [(str(out), store)]),
    )
    print("\n\n".join(f"{title}\n{entries(rows, widest=30)}" for title, rows in sections))
    if missing:
        print(f"\nRequired packages are missing: pip install {' '.join(missing)}")
    return int(bool(missing) or not writable)


def required_packages() -> list[str]:
    """Names of the packages that posenc requires, from its metadata.

    Returns:
        The names, without versions.
    """
    return [name for name, extra in _requirements() if not extra]


def missing_of_extras() -> dict[str, list[str]]:
    """Packages of each extra that are not installed, from the metadata of posenc.

    Returns:
        Extra -> names of its missing packages.
    """
    extras: dict[str, list[str]] = {}
    for name, extra in _requirements():
        if extra:
            extras.setdefault(extra, []).extend([] if _version(name) else [name])
    return extras


def _requirements() -> Iterator[tuple[str, str]]:
    """Name of each package that posenc requires, and its extra; "" without one."""
    try:
        lines = importlib.metadata.requires("posenc") or []
    except importlib.metadata.PackageNotFoundError:  # The source is on the path without an installation.
        lines = []
    for line in lines:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        yield re.split(r"[\s<>=!~;\[(]", line, maxsplit=1)[0], extra[1] if extra else ""


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _versions() -> list[tuple[str, str]]:
    rows = [("posenc", __version__), ("python", f"{platform.python_version()}, {sys.executable}")]
    return [*rows, *((name, _version(name) or "missing") for name in required_packages())]


def _machine() -> list[tuple[str, str]]:
    from posenc.workbench.memory import free_memory
    from posenc.workbench.provenance import cores

    free = free_memory()
    memory = "unknown" if free is None else f"{free / 2**30:.1f} GiB free"
    return [("system", platform.platform()), ("cores", str(cores())), ("memory", memory), ("GPU", _gpu())]


def _gpu() -> str:
    if importlib.util.find_spec("torch") is None:
        return "unknown, since torch is missing"
    import torch

    if not torch.cuda.is_available():
        return "none that torch can use; runs use --device cpu"
    return ", ".join(f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count()))


def _extras() -> list[tuple[str, str]]:
    rows = []
    for extra, missing in missing_of_extras().items():
        needed = f"missing {', '.join(missing)}: pip install 'posenc[{extra}]'"
        rows.append((extra, needed if missing else "present"))
    return rows or [("unknown", "posenc is not installed as a package: pip install -e .")]


def _data(folder: Path | None) -> list[tuple[str, str]]:
    chosen = folder or (Path(os.environ["POSENC_DATA"]) if os.environ.get("POSENC_DATA") else None)
    files: dict[str, list[str]] = {}
    for study, entry in index.load().studies.items():
        for file in entry["data"]:
            files.setdefault(file, []).append(study)
    if chosen is None:
        uses = "; ".join(f"{file} ({', '.join(studies)})" for file, studies in files.items())
        return [("no folder", f"name it by --data DIR or $POSENC_DATA; studies read {uses}")]
    rows = [(str(chosen), "present" if chosen.is_dir() else "absent")]
    for file, studies in files.items():
        state = "present" if (chosen / file).exists() else "absent; see posenc list data"
        rows.append((file, f"{state}, for {', '.join(studies)}"))
    return rows


def _store(out: Path) -> tuple[bool, str]:
    """True if the store can be written, and a sentence."""
    existing = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):  # The permissions of a folder do not tell of a read-only system.
            writable = True
    except OSError:
        writable = False
    state = "exists" if out.exists() else "does not exist; the first run makes it"
    return writable, f"{state}, {'writable' if writable else f'not writable: {existing}. Choose another: --out DIR'}"
