"""Writer of the files of one run, into a folder that is not yet part of a store."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from posenc.workbench.files.atomic_files import write_whole
from posenc.workbench.runs import RunResult
from posenc.workbench.storage.stored import ARRAYS, CURVES, METRICS, WEIGHTS, Record, encode_record


def write_run(folder: Path, record: Record, result: RunResult) -> None:
    """Write the files of a run. ``unit.json`` is written last, and has the sizes and digests of the others.

    Args:
        folder: The folder.
        record: The record; its sizes, digests and checksum are set here.
        result: The result. Weights that the record leaves out are not written.

    Raises:
        OSError: The disk is full or read-only.
    """
    import numpy as np
    from safetensors.numpy import save as save_arrays
    from safetensors.torch import save as save_weights

    labels, key = record.spec.labels, record.key
    metrics = [labels | {"metric": m, "value": float(v), "unit": key} for m, v in sorted(result.metrics.items())]
    arrays = {name: np.array(array, order="C") for name, array in result.arrays.items()}
    weights = {name: w.detach().cpu().contiguous().clone() for name, w in result.weights.items()}
    files = {
        METRICS: msgspec.json.Encoder().encode_lines(metrics),
        CURVES: msgspec.json.Encoder().encode_lines([labels | c | {"unit": key} for c in result.curves]),
        ARRAYS: save_arrays(arrays),
    }
    files |= {} if WEIGHTS in record.left_out else {WEIGHTS: save_weights(weights)}
    record.files = {name: len(data) for name, data in files.items()}
    record.digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    for name, data in [*files.items(), ("unit.json", encode_record(record))]:
        write_whole(folder / name, data)
