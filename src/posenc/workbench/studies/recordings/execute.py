"""Execute one run of the study of recordings: its recordings are in the store."""

from __future__ import annotations

from pathlib import Path

from posenc.workbench.runs import Procedure, RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.recordings import stored_recordings
from posenc.workbench.studies.shared.hidden_tokens import execute
from posenc.workbench.studies.shared.hidden_tokens.tokens import Tokens
from posenc.workbench.training.loop import Report


def read_tokens(root: Path, spec: RunSpec) -> Tokens:
    """The recordings of a store: the same parts for every seed, or a user's recordings with the parts of the seed."""
    digest = spec.settings["data"]["recordings"]
    if "split" not in spec.settings:
        return stored_recordings.read_tokens(root, digest)
    return stored_recordings.read_parts(root, digest, spec.seed, spec.settings["data"]["test_frames"])


def train(spec: RunSpec, workdir: Path, report: Report) -> RunResult:
    """Train the model of a run and score it, or compute a baseline."""
    return execute.execute(spec, workdir, report, read_tokens)


def run_seconds(spec: RunSpec, store: Store) -> float:
    """Time of a run on one core of this machine, from a few timed steps."""
    return execute.run_seconds(spec, store, read_tokens)


TRAIN = Procedure("masked.train", 1, train)
