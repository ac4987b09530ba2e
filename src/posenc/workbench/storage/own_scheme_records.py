"""Records of a user's schemes in a store: code, origin, digest, and the checks of the contract that they fail.

A store has them in its folder ``schemes``, as ``NAME.py`` and ``NAME.json``. Pages read the records. No code of a store
is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from posenc.contract import check
from posenc.lookup import own_scheme
from posenc.workbench.storage.store import Store
from posenc.workbench.training.checkpoint import write_whole

FOLDER = "schemes"
NAME = re.compile(r"\b\w+_[0-9a-f]{8}\b")
"""Name of a user's scheme inside the label of a variant."""


class OwnSchemeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A user's scheme. Field names are stored.

    Attributes:
        name: Name with the first digits of the digest.
        source: File and class, module and class, or "a notebook".
        digest: sha256 of the code.
        checks: Number of checks of the contract.
        failed: Names of the failed checks, each once.
        remark: Reason why the contract was not checked; empty if it was.
    """

    name: str
    source: str
    digest: str
    checks: int = 0
    failed: tuple[str, ...] = ()
    remark: str = ""

    @property
    def contract(self) -> str:
        """Outcome of the contract in words."""
        if self.remark:
            return self.remark
        if not self.failed:
            return f"all {self.checks} checks passed"
        return f"failed: {', '.join(self.failed)}"


def note(store: Store, labels: Iterable[str]) -> list[OwnSchemeRecord]:
    """Write the code and the record of each of the user's schemes among labels. The contract is checked once per code.

    Args:
        store: The store.
        labels: Labels of variants.

    Returns:
        The records.
    """
    records = []
    for name in _names(labels):
        code = own_scheme.codes().get(name)
        if code is None:
            continue
        store.ensure_writable()
        folder = store.root / FOLDER
        folder.mkdir(exist_ok=True)
        write_whole(folder / f"{name}.py", code.encode())
        record, source = _read(store, name) or _checked(name), own_scheme.source(name)
        if source is not None and source.path is not None:  # the same code may have been read from another file before
            record = msgspec.structs.replace(record, source=source.name)
        write_whole(folder / f"{name}.json", msgspec.json.encode(record))
        records.append(record)
    return records


def records_of(store: Store, labels: Iterable[str]) -> list[OwnSchemeRecord]:
    """Read the records of the user's schemes among labels.

    Args:
        store: The store.
        labels: Labels of variants.

    Returns:
        The records; none for a scheme whose record is not in the store, as after merging a pack.
    """
    return [record for name in _names(labels) if (record := _read(store, name)) is not None]


def edited(labels: Iterable[str]) -> list[str]:
    """Describe the user's schemes whose file has changed since it was read.

    Args:
        labels: Labels of variants.

    Returns:
        One sentence for each.
    """
    sentences = []
    for name in _names(labels):
        source = own_scheme.source(name)
        if source is not None and source.edited:
            sentences.append(
                f"{source.name.partition(':')[0]} was edited after it had been read. These results are of the earlier "
                f"code, {name}; the same command trains the new code."
            )
    return sentences


def _names(labels: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for label in labels for name in NAME.findall(label)))


def _read(store: Store, name: str) -> OwnSchemeRecord | None:
    try:
        return msgspec.json.decode((store.root / FOLDER / f"{name}.json").read_bytes(), type=OwnSchemeRecord)
    except (OSError, msgspec.MsgspecError):
        return None


def _checked(name: str) -> OwnSchemeRecord:
    """The record of a scheme, after checking its contract."""
    kind, source = own_scheme.find(name), own_scheme.source(name)
    assert kind is not None
    assert source is not None
    record = OwnSchemeRecord(name=name, source=source.name, digest=source.digest)
    if not kind.examples:
        return msgspec.structs.replace(record, remark="not checked, because the class declares no `examples`")
    report = check(kind)
    failed = tuple(dict.fromkeys(result.check for result in report.failures))
    return msgspec.structs.replace(record, checks=len(report.results), failed=failed)
