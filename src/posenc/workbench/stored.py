"""A finished run as a store holds it: its record, metrics, curves, arrays and weights."""

from __future__ import annotations

import hashlib
import math
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

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


class StoreError(ValueError):
    """The store cannot be read or written; the message is one sentence with the fix."""


class Record(msgspec.Struct):
    """The contents of `unit.json`.

    digests: sha256 of each file, where the store is new enough to have them. left_out: file or array that a pack did
    not carry, and why.
    """

    spec: RunSpec = msgspec.field(name="unit")
    key: str
    files: dict[str, int]
    timing: Row
    provenance: Row
    digests: dict[str, str] = {}
    left_out: dict[str, str] = {}


class Stored:
    """A finished run as the store holds it; each part is read when it is asked for."""

    def __init__(self, folder: Path, record: Record) -> None:
        self.folder, self.spec = folder, record.spec
        self.identity, self.timing, self.provenance = record.spec.identity, record.timing, record.provenance
        self.digests, self.files, self.left_out = record.digests, record.files, record.left_out

    @property
    def name(self) -> str:
        """Identity, with the number of the copy where several results are stored under it."""
        copy = self.folder.name.partition(".")[2]
        return f"{self.identity}.{copy}" if copy else self.identity

    @property
    def has_weights(self) -> bool:
        """Whether the weights are stored; a pack leaves them out."""
        return WEIGHTS in self.files

    @cached_property
    def metrics(self) -> dict[str, float]:
        return {row["metric"]: row["value"] for row in read_rows(self.folder / "metrics.jsonl")}

    @cached_property
    def curves(self) -> list[Row]:
        return read_rows(self.folder / "curves.jsonl")

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        from safetensors.numpy import load

        return load(self._verified(ARRAYS))

    @cached_property
    def weights(self) -> dict[str, torch.Tensor]:
        from safetensors.torch import load

        if not self.has_weights:
            raise StoreError(
                f"{self.spec.variant}, seed {self.spec.seed}, came from a pack, and packs hold no weights. Train it in "
                "another store to measure its model: the same posenc run command with another --out."
            )
        return load(self._verified(WEIGHTS))

    def _verified(self, name: str) -> bytes:
        """Content of a file; StoreError if it is not what was stored."""
        content = (self.folder / name).read_bytes()
        if name in self.digests and hashlib.sha256(content).hexdigest() != self.digests[name]:
            raise StoreError(
                f"{self.folder / name} is not what was stored: its checksum differs, so it was changed or damaged. "
                f"Train the run anew: rm -r {self.folder}, and run the same command again."
            )
        return content

    def rows(self, labels: Row) -> list[Row]:
        """One row per metric under these labels."""
        return [
            labels | {"metric": metric, "value": value, "unit": self.name} for metric, value in self.metrics.items()
        ]

    def curve_rows(self, labels: Row) -> list[Row]:
        """One row per point of a curve under these labels."""
        points = ({name: value for name, value in row.items() if name not in (*LABELS, "unit")} for row in self.curves)
        return [labels | point | {"unit": self.name} for point in points]


def read_rows(path: Path) -> list[Row]:
    """Rows of a JSON-lines file; a `value` that JSON could not hold (null) is nan."""
    rows = msgspec.json.Decoder().decode_lines(path.read_bytes())
    for row in rows:
        if "value" in row and row["value"] is None:
            row["value"] = math.nan
    return rows
