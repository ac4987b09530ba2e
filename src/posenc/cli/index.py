"""Index of schemes and studies, from which the command line starts without torch.

``python tools/index.py`` writes ``index.json`` from the source. If the source has changed since then, the index is
built anew from the source, which loads torch and takes seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]
FILE = Path(__file__).with_name("index.json")


@dataclass(frozen=True)
class Index:
    """Names and descriptions of all schemes and studies.

    Attributes:
        schemes: Rows of ``posenc list schemes --format json``.
        functions: Names of the frequency schedules and of the functions that change positions.
        studies: Study -> its entry; the keys are those of ``index_of_source.study_entry``.
    """

    schemes: list[dict[str, Any]]
    functions: list[str]
    studies: Mapping[str, dict[str, Any]]


def load(file: Path = FILE, package: Path = PACKAGE) -> Index:
    """Load the index, or build it from the source if the source has changed.

    Args:
        file: The written index.
        package: Folder of the source.

    Returns:
        The index.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["digest"] == source_digest(package):
            return Index(content["schemes"], content["functions"], content["studies"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # A missing or damaged index is built anew, as an outdated one.
    from posenc.cli.index_of_source import build

    return build()


def source_digest(package: Path = PACKAGE) -> str:
    """Return the digest of the names and contents of all Python files of the package.

    Args:
        package: Folder of the source.

    Returns:
        Hexadecimal digest.
    """
    digest = blake2b(digest_size=16)
    for path in sorted(package.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(package).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
