"""RoPE with frequencies that are scaled after training, for longer contexts: linear, NTK-aware and two forms of YaRN.

YaRN keeps fast pairs of channels, divides slow ones by the factor, and blends those between. As published, its ramp is
linear in the turns of a pair within the training length, from 1 to 32; as released, it is linear in the number of the
pair. Within short training lengths few pairs make as many as 32 turns, so the published ramp blends almost all pairs.

A run with scaled frequencies takes the trained weights of the run of "rope" that has the same seed, if that run is
finished, and trains the same model otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
import torch
from torch import Tensor, nn

from posenc import frequencies
from posenc.adapt.swap import swap
from posenc.frequencies import Frequencies
from posenc.lookup.scheme_text import Specification, call_text
from posenc.models.language import LanguageConfig
from posenc.schemes.rope import RoPE
from posenc.workbench.runs import TRAINED, RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.studies.language.recall_model import MULTIPLES
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
    scheme = scaled_rope(scaling, head_dim, factor=factor, trained=trained)
    options: dict[str, float | bool] = {"factor": factor}
    if scaling == "yarn":
        options |= {"trained": trained, "beta": frequencies.MOST_TURNS}
    elif scaling == "yarn-released":
        options |= {"trained": trained, "literal": True}
    schedule = {"schedule": scaling.partition("-")[0], "options": options}
    scheme.built_as = call_text(Specification("RoPE", {"head_dim": head_dim, "frequencies": schedule}))
    swap(model, scheme)


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
        released = scaling == "yarn-released"
        theta = frequencies.yarn(count, factor=factor, trained=trained, beta=frequencies.MOST_TURNS, literal=released)
    return RoPE(head_dim, frequencies=theta)


class RampCounts(NamedTuple):
    """Numbers of pairs of channels by the treatment of their frequency."""

    kept: int
    blended: int
    slowed: int


def ramp_counts(scaling: Scaling, head_dim: int, *, factor: float, trained: int) -> RampCounts:
    """Count the pairs of channels whose frequency a scaling keeps, blends, or divides by the factor.

    Args:
        scaling: How the frequencies are scaled.
        head_dim: Width of a head.
        factor: Longest context in testing, in multiples of the training length.
        trained: Training length in tokens.

    Returns:
        The numbers of pairs.
    """
    theta = scaled_rope(scaling, head_dim, factor=factor, trained=trained).theta
    ratio = torch.tensor(theta, dtype=torch.float64) / frequencies.geometric(head_dim // 2)
    kept, slowed = (int(((ratio - end).abs() < 1e-9).sum()) for end in (1.0, 1 / factor))
    return RampCounts(kept, len(ratio) - kept - slowed, slowed)


def ramp_text(settings: Mapping[str, Any]) -> str:
    """Phrase on the scaled frequencies of a run, from its settings.

    Args:
        settings: Settings of the run.

    Returns:
        Text such as "factor 8; of 8 pairs of channels 0 kept, 3 blended, 5 slowed"; "" without scaling.
    """
    if "schedule" not in settings:
        return ""
    config = msgspec.convert(settings["row"]["config"], LanguageConfig)
    factor = settings["text"]["multiple"] if "text" in settings else MULTIPLES[-1]
    counts = ramp_counts(settings["schedule"], config.head_dim, factor=factor, trained=settings["window"])
    return (
        f"factor {factor:g}; of {sum(counts)} pairs of channels {counts.kept} kept, {counts.blended} blended, "
        f"{counts.slowed} slowed"
    )
