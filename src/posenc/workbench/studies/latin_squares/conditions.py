"""The conditions of the Latin-square study: the changes of each to the main condition, and its variants."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from typing_extensions import override

from posenc.models.encoder import EncoderConfig
from posenc.workbench.storage.frozen_defaults import FROZEN_DEFAULTS
from posenc.workbench.studies.latin_squares.presets import Protocol
from posenc.workbench.studies.latin_squares.variants import HEADS, SIGMA_GAP, SIGMAS, SMALL_SIGMAS, TABLE_1, learned
from posenc.workbench.studies.shared.declarations import MAIN, Condition
from posenc.workbench.training.loop import TrainingConfig

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.page_data import PageData

WEIGHT_DECAY, SGD, TWO_HEADS, FOUR_HEADS, GAP_CLOSES = "weight decay 0.1", "sgd", "2 heads", "4 heads", "gap closes"
"""Labels of the conditions: stored names."""

ADDED_ONCE = {"norm": "pre", "token_std": 1.0, "placement": "input"}
"""Model with layer norm before attention whose encoding is added once, to tokens of its own size."""

SETTING_NAMES = {
    "train_size": "training puzzles",
    "model.norm": "layer norm",
    "model.token_std": "standard deviation of token embeddings",
    "model.placement": "encoding added",
    "training.lr": "learning rate",
    "training.optimiser": "optimizer",
    "training.evaluate_every": "epochs between evaluations",
}
"""Names on the page of stored settings whose stored name is not clear."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a condition to the main one; names of ``model`` and ``training`` are fields of their configs."""

    train_size: int | None = None
    model: dict[str, Any] = {}
    training: dict[str, Any] = {}

    def applied_to(self, main: Protocol) -> Protocol:
        """The main condition with these changes."""
        return msgspec.structs.replace(
            main,
            train_size=self.train_size or main.train_size,
            model=msgspec.structs.replace(main.model, **self.model),
            training=msgspec.structs.replace(main.training, **self.training),
        )

    @property
    def settings(self) -> list[str]:
        """Dotted paths of the changed values in a protocol."""
        parts = (("model", self.model), ("training", self.training))
        size = ["train_size"] if self.train_size else []
        return size + [f"{part}.{name}" for part, values in parts for name in values]

    @property
    def paths(self) -> list[tuple[str, ...]]:
        """Places of the changed values in a run's settings, under their stored names."""
        size = [("train_size",)] if self.train_size else []
        parts = (("model", EncoderConfig, self.model), ("training", TrainingConfig, self.training))
        return size + [(part, _stored_name(config, name)) for part, config, values in parts for name in values]


@dataclass(frozen=True, kw_only=True)
class ChangedTraining(Condition):
    """A condition that changes the main one.

    Attributes:
        change: The change at every preset.
        by_preset: Preset to a change of its own.
    """

    change: Change
    by_preset: Mapping[str, Change] = field(default_factory=dict)

    def change_at(self, preset: str) -> Change:
        """The change at a preset."""
        return self.by_preset.get(preset, self.change)

    @override
    def varies(self, preset: str) -> Collection[str]:
        """Dotted paths of the settings that the change fixes."""
        return [f"main.{name}" for name in self.change_at(preset).settings]

    @override
    def changes_in(self, data: PageData) -> Mapping[str, str]:
        """Each changed setting with its old and new value, read from the stored settings of the runs on the page."""
        change = self.change_at(data.request.preset)
        run = next((spec for spec in data.specs if spec.condition == self.label), None)
        if run is None:
            return {}
        main = next((s for s in data.specs if (s.condition, s.variant) == (MAIN, run.variant)), None)
        texts = dict[str, str]()
        for path in change.paths:
            new = _text(run.settings, path)
            old = None if main is None else _text(main.settings, path)
            name = SETTING_NAMES.get(".".join(path), path[-1].replace("_", " "))
            if old != new:
                texts[name] = new if old is None else f"{old} → {new}"
        return texts


def _stored_name(config: type[msgspec.Struct], field_name: str) -> str:
    return next(one.encode_name for one in msgspec.structs.fields(config) if one.name == field_name)


def _text(settings: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = settings
    for name in path:
        value = value.get(name, FROZEN_DEFAULTS.get(".".join(path)))
    if value is None:
        return "all" if path == ("train_size",) else "none"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("_", " ")


CONDITIONS: dict[str, Condition] = {
    condition.label: condition
    for condition in (
        Condition(label=MAIN, title="Main condition"),
        ChangedTraining(
            label=WEIGHT_DECAY,
            title="Weight decay 0.1",
            change=Change(training={"optimizer": "adamw", "weight_decay": 0.1}),
            has_variant=lambda variant: variant in (*TABLE_1, *map(learned, SIGMAS)),
        ),
        ChangedTraining(
            label=TWO_HEADS,
            title="Two heads",
            change=Change(model={"heads": 2}),
            has_variant=lambda variant: variant in (*HEADS, *map(learned, SIGMAS)),
        ),
        ChangedTraining(
            label=FOUR_HEADS,
            title="Four heads",
            change=Change(model={"heads": 4}),
            has_variant=lambda variant: variant in (*HEADS, *map(learned, SIGMAS)),
        ),
        ChangedTraining(
            label=GAP_CLOSES,
            title="Condition in which the gap closes",
            # The same changes to the paper's model: three times its rate, pre-norm, and the encoding added once.
            change=Change(model=dict(ADDED_ONCE), training={"lr": 3e-4}),
            by_preset={
                # More puzzles, a larger rate, pre-norm, tokens as large as the encoding, which is added once:
                # learned-2 then reaches learned-0.2.
                "quick": Change(
                    train_size=8000,
                    model=dict(ADDED_ONCE),
                    training={"epochs": 20, "lr": 3e-3, "evaluate_every": 5},
                )
            },
            has_variant=lambda variant: variant in SIGMA_GAP,
        ),
        ChangedTraining(
            label=SGD,
            title="Plain SGD",
            change=Change(training={"optimizer": "sgd", "lr": 1e-3, "epochs": 4000, "evaluate_every": 100}),
            # The rate at which plain SGD learns this small model in twice the epochs (docs/log.md).
            by_preset={"quick": Change(training={"optimizer": "sgd", "lr": 0.2, "epochs": 120})},
            has_variant=lambda variant: variant in map(learned, SMALL_SIGMAS),
        ),
    )
}


def condition(label: str) -> Condition:
    """The condition of a label. A condition that occurs only in a store has no variants to train."""
    return CONDITIONS.get(label) or Condition(label=label)


def protocol(main: Protocol, label: str, preset: str) -> Protocol:
    """Training protocol of a condition at a preset.

    Args:
        main: Protocol of the main condition of the preset.
        label: Label of the condition.
        preset: Name of the preset.

    Returns:
        The protocol.
    """
    one = CONDITIONS[label]
    return one.change_at(preset).applied_to(main) if isinstance(one, ChangedTraining) else main
