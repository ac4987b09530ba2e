"""Stored run: the record, metrics, curves, arrays and weights of a finished run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from posenc.workbench.runs import Row, RunSpec

if TYPE_CHECKING:
    import numpy as np
    import torch


class Labels(TypedDict):
    """First columns of every row, under their stored names."""

    study: str
    preset: str
    setting: str
    scheme: str
    seed: int


LABELS = tuple(Labels.__annotations__)
WEIGHTS, ARRAYS = "weights.safetensors", "arrays.safetensors"
METRICS, CURVES = "metrics.jsonl", "curves.jsonl"
EMPTY_WEIGHTS = 16
"""Size in bytes of a file of weights without a tensor, as a baseline has."""


class StoreError(ValueError):
    """Raised if a store cannot be read or written. The message gives the reason and the remedy.

    Example:
        >>> from posenc.workbench import Store, StoreError
        >>> try:
        ...     Store("no-such-folder", create=False)
        ... except StoreError as error:
        ...     print(error)
        There are no results in no-such-folder. Make some first: posenc run --help; or name their folder: --out DIR
    """


class DamagedRunError(StoreError):
    """Raised if a file of one run is not what was stored. The other runs of the store are not concerned."""


class LeftOutError(StoreError):
    """Raised if an array of a run is asked for that its pack did not contain."""


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """A damaged run of a store.

    Attributes:
        name: Name of its folder.
        reason: What is wrong, such as "metrics.jsonl is missing".
        study: Study; "" if no file tells it.
        preset: Preset; "" if no file tells it.
        run: Study, variant, condition and seed in words; "" if no file tells them.
        command: Command that trained it; "" if that is not known.
    """

    name: str
    reason: str
    study: str = ""
    preset: str = ""
    run: str = ""
    command: str = ""

    def __str__(self) -> str:
        return f"{self.run or 'a run'} ({self.name}): {self.reason}"


class Record(msgspec.Struct):
    """Contents of the file ``unit.json``.

    Attributes:
        spec: Specification of the run.
        key: Identity of the run.
        files: Size in bytes of each file.
        timing: Seconds, device, number of attempts and the like.
        provenance: Command, commit, versions and machine.
        digests: SHA-256 of each file; absent in old stores.
        left_out: File or array that a pack did not contain, and the reason.
        code: Key of the digests of the source files that made the result (``stored_code``); "" in old stores.
        checksum: SHA-256 of this file with zeros in place of the checksum; "" in old stores.
    """

    spec: RunSpec = msgspec.field(name="unit")
    key: str
    files: dict[str, int]
    timing: Row
    provenance: Row
    digests: dict[str, str] = {}
    left_out: dict[str, str] = {}
    code: str = ""
    checksum: str = ""


NO_CHECKSUM = b"0" * 64


def encode_record(record: Record) -> bytes:
    """Content of ``unit.json`` for a record, with its checksum.

    Args:
        record: The record.

    Returns:
        The content.
    """
    record.checksum = NO_CHECKSUM.decode()
    content = msgspec.json.encode(record)
    record.checksum = hashlib.sha256(content).hexdigest()
    return msgspec.json.encode(record)


def is_checksum_right(content: bytes, checksum: str) -> bool:
    """Compare the content of a ``unit.json`` with the checksum that it names.

    Args:
        content: The content.
        checksum: The checksum in it.

    Returns:
        True if the content is what was written.
    """
    return hashlib.sha256(content.replace(checksum.encode(), NO_CHECKSUM, 1)).hexdigest() == checksum


class Stored:
    """Finished run of a store. Each part is read from its file when it is first used.

    Args:
        folder: Folder of the run. A compacted run has none; its name is still that of the run.
        record: Contents of its ``unit.json``.
        read: Returns the content of one of its files, and raises DamagedRunError; None to read the folder.

    Example:
        >>> import tempfile
        >>> from posenc.workbench import RunResult, RunSpec, Store
        >>> spec = RunSpec(study="toy", variant="rope", seed=0, preset="quick", procedure="toy.train", settings={})
        >>> store = Store(tempfile.mkdtemp())
        >>> store.finish(spec, RunResult(metrics={"loss": 0.5}), {"seconds": 1.0})
        >>> run = store.read(spec.identity)
        >>> run.metrics, run.timing["seconds"], run.has_weights
        ({'loss': 0.5}, 1.0, True)
    """

    def __init__(self, folder: Path, record: Record, read: Callable[[str], bytes] | None = None) -> None:
        self.folder, self.spec, self._read = folder, record.spec, read or self._read_folder
        self.identity, self.timing, self.provenance = record.spec.identity, record.timing, record.provenance
        self.digests, self.files, self.left_out = record.digests, record.files, record.left_out
        self.code = record.code

    @property
    def name(self) -> str:
        """Identity, with the number of the copy if several results are stored under it, such as "1f..9a.2"."""
        copy = self.folder.name.partition(".")[2]
        return f"{self.identity}.{copy}" if copy else self.identity

    @property
    def has_weights(self) -> bool:
        """True if the weights are stored; False for a run that was merged from a pack."""
        return WEIGHTS in self.files

    @property
    def has_network(self) -> bool:
        """True if the weights of a network are stored; False for a baseline that trains none."""
        return self.files.get(WEIGHTS, 0) > EMPTY_WEIGHTS

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Metrics by name."""
        return {row["metric"]: row["value"] for row in read_rows(self._verified(METRICS))}

    @cached_property
    def curves(self) -> list[Row]:
        """Rows of the learning curves, with the labels of the run."""
        return read_rows(self._verified(CURVES))

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """Arrays of the run. An array that a pack left out raises LeftOutError.

        Returns:
            Arrays by name.

        Raises:
            StoreError: The file is damaged.
        """
        from safetensors.numpy import load

        return _Arrays(self._loaded(ARRAYS, load), self.spec, self.left_out)

    @cached_property
    def weights(self) -> dict[str, torch.Tensor]:
        """Weights of the trained model.

        Returns:
            Its ``state_dict``, on the CPU.

        Raises:
            StoreError: The run came from a pack, which has no weights, or the file is damaged.
        """
        from safetensors.torch import load

        if not self.has_weights:
            raise StoreError(
                f"{self.spec.variant}, seed {self.spec.seed}, came from a pack, and packs hold no weights. Train it in "
                "another store to measure its model: the same posenc run command with another --out."
            )
        return self._loaded(WEIGHTS, load)

    def _loaded(self, name: str, load: Callable[[bytes], dict[str, Any]]) -> dict[str, Any]:
        """Tensors of a file. Only a file without a stored digest, of an early version, can fail to load."""
        from safetensors import SafetensorError

        try:
            return load(self._verified(name))
        except SafetensorError as error:
            raise self._damaged(name, f"cannot be read ({error})") from None

    def _verified(self, name: str) -> bytes:
        """Content of a file; DamagedRunError if it is not what was stored."""
        try:
            content = self._read(name)
        except DamagedRunError as error:
            raise self._damaged(name, str(error).removeprefix(f"{name} ")) from None
        if name in self.digests and hashlib.sha256(content).hexdigest() != self.digests[name]:
            raise self._damaged(name, "has another content than was stored")
        return content

    def _read_folder(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise DamagedRunError(f"{name} cannot be read ({error.strerror})") from None

    def _damaged(self, name: str, reason: str) -> DamagedRunError:
        store = self.folder.parents[1]
        return DamagedRunError(
            f"{self.folder / name} {reason}. Set the run aside: posenc store verify --set-aside --out {store}. Then "
            "the same posenc run command trains it again."
        )

    def rows(self, labels: Row) -> list[Row]:
        """Return one row per metric.

        Args:
            labels: The first columns of each row.

        Returns:
            Rows with the labels and the columns "metric", "value" and "unit" (the identity).
        """
        return [
            labels | {"metric": metric, "value": value, "unit": self.name} for metric, value in self.metrics.items()
        ]

    def curve_rows(self, labels: Row) -> list[Row]:
        """Return one row per point of a learning curve.

        Args:
            labels: The first columns of each row.

        Returns:
            Rows with the labels, the columns of the curve and "unit" (the identity).
        """
        points = ({name: value for name, value in row.items() if name not in (*LABELS, "unit")} for row in self.curves)
        return [labels | point | {"unit": self.name} for point in points]


class _Arrays(dict[str, "np.ndarray"]):
    """Arrays of a run; the error for one that a pack left out says so.

    arrays: the stored ones. spec: specification of the run. left_out: name to reason of each that is not stored.
    """

    def __init__(self, arrays: dict[str, np.ndarray], spec: RunSpec, left_out: dict[str, str]) -> None:
        super().__init__(arrays)
        self._run, self._left_out = f"{spec.variant}, seed {spec.seed}", left_out

    def __missing__(self, name: str) -> np.ndarray:
        if name in self._left_out:
            raise LeftOutError(f"{self._run}, came from a pack without its array {name} ({self._left_out[name]}).")
        raise KeyError(name)


def read_rows(content: bytes) -> list[Row]:
    """Read the rows of a JSON-lines file. A ``value`` of null becomes nan, which JSON does not have."""
    rows = msgspec.json.Decoder().decode_lines(content)
    for row in rows:
        if "value" in row and row["value"] is None:
            row["value"] = math.nan
    return rows
