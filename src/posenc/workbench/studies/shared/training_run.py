"""Training procedure of the studies: build a model on its data, train it, score it; restore a trained model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from posenc.scheme import Scheme
from posenc.workbench.runs import RunResult, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.training.fit import Fit
from posenc.workbench.training.loop import Report, TrainingConfig, amount, train_to_state
from posenc.workbench.training.precision import Precision

EMBEDDING_SCALE = "embedding_scale"
"""Name of the stored array with the ratio of positions to tokens before training."""


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


@runtime_checkable
class AddsRows(Protocol):
    """A model on its data that may add embedding rows to its tokens."""

    def embedding_scale(self) -> float | None:
        """Root mean square of the rows over that of the tokens, on some of its data; None if no rows are added."""
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
        fit, scale = trained.fit(), initial_embedding_scale(trained)
        state = train_to_state(fit, trained.training, spec.seed, workdir, report, precision=precision)
        trained.model.eval()
        result = with_embedding_scale(trained.result(state.curve), scale)
        result.trained = amount(fit, trained.training, state)
        result.calls = calls_of(trained.model)
        return result


def calls_of(model: nn.Module) -> tuple[str, ...]:
    """Calls that built the encodings of a model, each once, in the order of its layers.

    Args:
        model: The model.

    Returns:
        The calls with every argument. That of a scheme made of others stands for all of them.
    """
    if isinstance(model, Scheme) and model.built_as:
        return (model.built_as,)
    return tuple(dict.fromkeys(call for child in model.children() for call in calls_of(child)))


def initial_embedding_scale(untrained: Any) -> float | None:
    """Ratio of the root mean squares of positions and tokens before training.

    Args:
        untrained: A model on its data.

    Returns:
        The ratio; None if the model adds no rows to its tokens.
    """
    return untrained.embedding_scale() if isinstance(untrained, AddsRows) else None


def with_embedding_scale(result: RunResult, scale: float | None) -> RunResult:
    """Add the ratio of positions to tokens before training to the arrays of a result.

    It is an array, because results that differ in it alone are equal: runs of earlier versions have none.

    Args:
        result: The result.
        scale: The ratio; None for a model that adds no rows.

    Returns:
        The result.
    """
    if scale is not None:
        result.arrays = {**result.arrays, EMBEDDING_SCALE: np.array([scale])}
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
