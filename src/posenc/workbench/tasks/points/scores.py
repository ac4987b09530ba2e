"""Scores of point cloud classification: accuracy, accuracy within pairs of classes, change of logits under motion."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor


def accuracy(logits: Float[Tensor, "M C"], labels: Int64[Tensor, "M"]) -> float:
    """Share of clouds whose class has the largest logit."""
    return float((logits.argmax(-1) == labels).double().mean())


def pairwise_accuracy(
    logits: Float[Tensor, "M C"],
    labels: Int64[Tensor, "M"],
    classes: Sequence[str],
    pairs: Sequence[tuple[str, str]],
) -> float:
    """Mean over pairs of classes of the accuracy when only the pair's two logits are compared; chance is 1/2.

    Args:
        logits: ``(M, C)``.
        labels: ``(M,)``.
        classes: Names of the C classes.
        pairs: Pairs of names.

    Raises:
        ValueError: A name is not among the classes.
    """
    accuracies = []
    for pair in pairs:
        if missing := [name for name in pair if name not in classes]:
            raise ValueError(f"there is no class {missing[0]!r} among {', '.join(classes)}.")
        both = torch.tensor([list(classes).index(name) for name in pair], device=labels.device)
        in_pair = torch.isin(labels, both)
        chosen = both[logits[in_pair][:, both].argmax(-1)]
        accuracies.append((chosen == labels[in_pair]).double().mean())
    return float(torch.stack(accuracies).mean())


def relative_logit_change(logits: Float[Tensor, "M C"], moved: Float[Tensor, "M C"]) -> float:
    """Change of logits, relative to their spread over classes and clouds.

        sqrt(mean (l' - l)^2 / mean (l - mean_c l)^2)

    It is 0 for a model that is invariant to the motion, and about 1.4 for one whose new logits are unrelated.
    """
    spread = (logits - logits.mean(-1, keepdim=True)).double().square().mean()
    return float(((moved - logits).double().square().mean() / spread.clamp(min=1e-30)).sqrt())
