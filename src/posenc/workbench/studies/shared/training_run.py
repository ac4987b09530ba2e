"""Training procedure of the studies: build a model on its data, train it, score it; restore a trained model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import torch
from torch import Tensor, nn

from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.store import Store
from posenc.workbench.training.fit import Fit
from posenc.workbench.training.loop import Report, TrainingConfig, amount, train_to_state
from posenc.workbench.training.precision import Precision


class ModelOnData(Protocol):
    """A model on its data, with its training problem and the result of the trained model."""

    @property
    def model(self) -> nn.Module:
        """The model that is trained."""
        ...

    @property
    def training(self) -> TrainingConfig:
        """Length, rates and evaluations of the training."""
        ...

    def fit(self) -> Fit:
        """Loss, batches and measurements for the training loop."""
        ...

    def result(self, curve: list[dict[str, Any]]) -> RunResult:
        """Final scores, arrays and weights; curve: the measurements of the training."""
        ...


M = TypeVar("M", bound=ModelOnData)
Build = Callable[[RunSpec, Path, Path | None], M]
"""Function from a run, the root of its store and the folder of the run (None without training) to its model on data."""


def store_root(workdir: Path) -> Path:
    """Root of the store that contains the folder of a run.

    Args:
        workdir: Folder of the run, ``STORE/work/ID``.

    Returns:
        The folder ``STORE``.
    """
    return workdir.parents[1]


def execute_training(spec: RunSpec, workdir: Path, report: Report, build: Build[Any]) -> RunResult:
    """Train the model of a run from its last checkpoint, and score it.

    The random state of the caller does not change.

    Args:
        spec: The run.
        workdir: Folder of the run, which holds its checkpoint.
        report: Callback for progress.
        build: Builds the model of the run on its data.

    Returns:
        Scores, arrays, learning curves and weights.
    """
    with torch.random.fork_rng():
        trained = build(spec, store_root(workdir), workdir)
        precision: Precision = spec.settings.get("precision", "float32")
        fit = trained.fit()
        state = train_to_state(fit, trained.training, spec.seed, workdir, report, precision=precision)
        trained.model.eval()
        result: RunResult = trained.result(state.curve)
        result.trained = amount(fit, trained.training, state)
        return result


def restored(store: Store, identity: str, build: Build[M], *, weights: bool = True) -> M:
    """Restore the model of a stored run on the CPU, in evaluation mode.

    Args:
        store: The store.
        identity: Identity of the run.
        build: Builds its model on its data.
        weights: Load the trained weights; False leaves the model as it was before its first step.

    Returns:
        The model on its data.

    Raises:
        StoreError: The run is not stored, or came from a pack without weights.
    """
    stored = store.read(identity)
    spec = msgspec.structs.replace(stored.spec, settings={**stored.spec.settings, "device": "cpu"})
    with torch.random.fork_rng():
        trained = build(spec, store.root, None)
    if weights:
        trained.model.load_state_dict(stored.weights)
    trained.model.eval()
    return trained


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """State of a model in the form of a store: contiguous tensors on the CPU.

    Args:
        model: The model.

    Returns:
        Name -> tensor.
    """
    state: Mapping[str, Tensor] = model.state_dict()
    return {name: value.detach().cpu().contiguous() for name, value in state.items()}
