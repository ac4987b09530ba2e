"""RoPE with frequencies that are scaled after training, for longer contexts: linear, NTK-aware and YaRN.

A run with scaled frequencies takes the trained weights of the run of "rope" that has the same seed, if that run is
finished, and trains the same model otherwise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
from torch import Tensor, nn

from posenc import frequencies
from posenc.adapt.swap import swap
from posenc.frequencies import Frequencies
from posenc.schemes.rope import RoPE
from posenc.workbench.runs import TRAINED, RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies.language.variants import Scaling
from posenc.workbench.studies.shared.training_run import ModelOnData, store_root
from posenc.workbench.training.loop import Report, amount, train_to_state


def unscaled_run(spec: RunSpec) -> RunSpec | None:
    """The run of "rope" whose weights a run with scaled frequencies uses; None for a run without scaling."""
    settings = dict(spec.settings)
    if settings.pop("schedule", None) is None:
        return None
    return msgspec.structs.replace(spec, variant=settings.pop("trained_as"), settings=settings)


def unscaled_training(
    spec: RunSpec, model: ModelOnData, workdir: Path, report: Report
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Load the weights of the unscaled run into a model, or train it; return the curves, and what was trained."""
    unscaled, store = unscaled_run(spec), Store(store_root(workdir), create=False)
    if unscaled is not None and store.finished(unscaled.identity):
        stored = store.read(unscaled.identity)
        model.model.load_state_dict(stored.weights)
        return stored.curves, {name: stored.timing[name] for name in TRAINED if name in stored.timing}
    fit = model.fit()
    state = train_to_state(fit, model.training, spec.seed, workdir, report)
    return state.curve, amount(fit, model.training, state)


def scale_frequencies(spec: RunSpec, model: nn.Module, head_dim: int, *, factor: float, trained: int) -> None:
    """Replace the RoPE of a trained model by one with the scaled frequencies of a run; see ``scaled_rope``."""
    scaling: Scaling = spec.settings["schedule"]
    assert scaling in get_args(Scaling)
    swap(model, scaled_rope(scaling, head_dim, factor=factor, trained=trained))


def scaled_rope(scaling: Scaling, head_dim: int, *, factor: float, trained: int) -> RoPE:
    """RoPE with scaled frequencies.

    Args:
        scaling: How the frequencies are scaled.
        head_dim: Width of a head.
        factor: Longest context in testing, in multiples of the training length.
        trained: Training length in tokens.

    Returns:
        The scheme.
    """
    count = head_dim // 2
    theta: Tensor | Frequencies
    if scaling == "linear":
        theta = frequencies.linear(count, factor=factor)
    elif scaling == "ntk":
        theta = frequencies.ntk(count, factor=factor)
    else:
        theta = frequencies.yarn(count, factor=factor, trained=trained)
    return RoPE(head_dim, frequencies=theta)
