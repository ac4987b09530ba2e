"""How well clouds are classified, also within pairs of classes, and how far logits move when clouds do."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor


def accuracy(logits: Float[Tensor, "M C"], labels: Int64[Tensor, "M"]) -> float:
    """The share of clouds whose class has the largest logit."""
    return float((logits.argmax(-1) == labels).double().mean())


def accuracy_within(
    logits: Float[Tensor, "M C"],
    labels: Int64[Tensor, "M"],
    classes: Sequence[str],
    pairs: Sequence[tuple[str, str]],
) -> float:
    """The mean over pairs of classes of the share of their clouds whose logit is the larger one of the two.

    Guessing scores 1/2. Raises ValueError for a class that is not there.
    """
    told = []
    for pair in pairs:
        if missing := [name for name in pair if name not in classes]:
            raise ValueError(f"there is no class {missing[0]!r} among {', '.join(classes)}.")
        both = torch.tensor([list(classes).index(name) for name in pair], device=labels.device)
        here = torch.isin(labels, both)
        chosen = both[logits[here][:, both].argmax(-1)]
        told.append((chosen == labels[here]).double().mean())
    return float(torch.stack(told).mean())


def change(logits: Float[Tensor, "M C"], moved: Float[Tensor, "M C"]) -> float:
    """How far logits move, as a share of how far they differ from class to class and cloud to cloud.

    ``sqrt(mean (l' - l)^2 / mean (l - mean_c l)^2)``: 0 for a model that does not see the move, about 1.4 for one that
    answers anew.
    """
    spread = (logits - logits.mean(-1, keepdim=True)).double().square().mean()
    return float(((moved - logits).double().square().mean() / spread.clamp(min=1e-30)).sqrt())
