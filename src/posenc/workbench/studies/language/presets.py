"""The scales of the language study: sizes of models, length of training, longest contexts in testing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec
from typing_extensions import override

from posenc.models.language import LanguageConfig
from posenc.workbench.studies.language.variants import COMPARED, EXTRAPOLATION
from posenc.workbench.studies.shared.declarations import OwnDataPlan, Preset
from posenc.workbench.training.loop import TrainingConfig


class ModelSize(NamedTuple):
    """Sizes of a causal model; see ``LanguageConfig``."""

    dim: int
    depth: int
    heads: int
    key_heads: int
    hidden: int

    def config(self, vocabulary: int) -> LanguageConfig:
        """Configuration for a number of different tokens."""
        return LanguageConfig(vocabulary=vocabulary, **self._asdict())


class RecallScale(NamedTuple):
    """Scale of the recall tasks.

    Attributes:
        model: Sizes of the model.
        window: Training length in tokens.
        training: Training configuration.
        symbols: Number of symbols of an alphabet.
        needles: Number of needles of a sample.
        max_multiple: Longest test samples, in multiples of the training length; a power of two.
    """

    model: ModelSize
    window: int
    training: TrainingConfig
    symbols: int
    needles: int
    max_multiple: int = 8


@dataclass(frozen=True, kw_only=True)
class LanguagePreset(Preset):
    """A scale of the language study.

    Attributes:
        extrapolation: Variants of the panel "extrapolation" unless the panel is requested by name.
        window: Training length on the text, in tokens.
        max_multiple: Longest context in testing, in multiples of the training length; a power of two.
        targets: Number of test tokens that are predicted from every context length.
        model: Sizes of the model on the text.
        training: Training configuration on the text.
        recall: Scale of the recall tasks.
        recall_variants: Variants of the panel "recall" if it is requested by name; empty for all of them.
    """

    extrapolation: Sequence[str]
    window: int
    max_multiple: int
    targets: int
    model: ModelSize
    training: TrainingConfig
    recall: RecallScale
    recall_variants: Sequence[str] = ()

    @override
    def with_dependent_values(self, changed: Collection[str]) -> LanguagePreset:
        """The preset whose schedules follow changed numbers of steps, unless a request changes the schedules too."""
        training = _scheduled(self.training, "training", changed)
        recall = _scheduled(self.recall.training, "recall.training", changed)
        return replace(self, training=training, recall=self.recall._replace(training=recall))


def _scheduled(training: TrainingConfig, path: str, changed: Collection[str]) -> TrainingConfig:
    if f"{path}.epochs" not in changed:
        return training
    derived = adamw(training.epochs, training.batch)
    names = [name for name in ("warmup_steps", "decay_steps", "evaluate_every") if f"{path}.{name}" not in changed]
    return msgspec.structs.replace(training, **{name: getattr(derived, name) for name in names})


def adamw(steps: int, batch: int, *, lr: float = 3e-3) -> TrainingConfig:
    """Training configuration: AdamW with warm-up and cosine decay to zero, 20 evaluations. An epoch is one step."""
    return TrainingConfig(
        epochs=steps,
        batch=batch,
        lr=lr,
        weight_decay=0.1,
        betas=(0.9, 0.95),
        clip=1.0,
        warmup_steps=steps // 10,
        decay_steps=steps,
        evaluate_every=max(1, steps // 20),
    )


SMALL = ModelSize(dim=64, depth=2, heads=4, key_heads=2, hidden=256)
LARGER = ModelSize(dim=128, depth=4, heads=4, key_heads=2, hidden=512)

RECALL = RecallScale(SMALL, window=32, training=adamw(1500, 64), symbols=64, needles=6)
"""With 64 symbols few occur twice in a sample, so the last symbol shows where to continue the copy."""

QUICK_RECALL = RECALL._replace(model=SMALL._replace(heads=2), window=20, needles=3, training=adamw(1200, 32))
"""Shorter samples, half the batch and half the heads of RECALL, for runs of less than half a minute on one core. Heads
of twice the width find needles in half as many steps; with fewer steps RoPE does not learn to copy (docs/log.md)."""

QUICK_RECALL_VARIANTS = ("nope", "sinusoid", "rope", "alibi")

PANELS = ("loss", "rotary", "extrapolation", "recall", "generation", "curves", "variants")
PRESETS: Mapping[str, LanguagePreset] = {
    "quick": LanguagePreset(
        about="8 encodings in models of 2 layers, training length 64, contexts up to 512, 3 seeds: about four minutes "
        "on two cores",
        seeds=(0, 1, 2),
        panels=("loss", "extrapolation", "generation", "curves", "variants"),
        asks=False,
        own=OwnDataPlan(),
        extrapolation=COMPARED,
        window=64,
        max_multiple=8,
        targets=2048,
        model=SMALL,
        training=adamw(600, 32),
        recall=QUICK_RECALL,
        recall_variants=QUICK_RECALL_VARIANTS,
    ),
    "standard": LanguagePreset(
        about="24 encodings in models of 2 layers, training length 256, contexts up to 4,096, recall tasks, 5 seeds: "
        "three hours on two cores",
        seeds=tuple(range(5)),
        panels=PANELS,
        own=OwnDataPlan(),
        extrapolation=EXTRAPOLATION,
        window=256,
        max_multiple=16,
        targets=2048,
        model=SMALL,
        training=adamw(1000, 16),
        recall=RECALL,
    ),
    "large": LanguagePreset(
        about="the same in models of 4 layers of width 128: about half a day on two cores",
        seeds=tuple(range(5)),
        panels=PANELS,
        extrapolation=EXTRAPOLATION,
        window=256,
        max_multiple=16,
        targets=2048,
        model=LARGER,
        training=adamw(1500, 16, lr=2e-3),
        recall=RECALL._replace(training=adamw(3000, 64)),
    ),
}

LIMITS: Mapping[str, Sequence[str]] = {
    "quick": (
        "Models of about 10^5 parameters, whose loss still falls when they are compared. Intervals are over seeds on "
        "one text, not over texts.",
    ),
    "standard": ("Models of about 10^5 parameters on one text. Intervals are over seeds, not over texts.",),
    "large": ("Models of about 10^6 parameters on one text. Intervals are over seeds, not over texts.",),
}
