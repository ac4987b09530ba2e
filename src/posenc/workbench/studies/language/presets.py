"""The scales of the language study: how large the models are, how long they learn, how far they are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from posenc.models.language import LanguageConfig
from posenc.workbench.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.language import recalling, rows
from posenc.workbench.studies.language.texts import find, keep
from posenc.workbench.studies.shared.declarations import Needs, Preset
from posenc.workbench.tasks.recall import SPECIAL
from posenc.workbench.training.loop import TrainingConfig

TASKS = ("copy", "needle")
KINDS = {"copy": 1, "needle": 3}
"""How many kinds of symbols a task has."""


def training(steps: int, batch: int, *, lr: float = 3e-3) -> TrainingConfig:
    """AdamW with a warm-up and a cosine to zero, a look twenty times on the way. A step is an epoch."""
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


QUICK = {"dim": 64, "depth": 2, "heads": 4, "key_heads": 2, "hidden": 256}
LARGER = {"dim": 128, "depth": 4, "heads": 4, "key_heads": 2, "hidden": 512}

RECALL = {"model": QUICK, "window": 32, "training": training(1500, 64), "symbols": 64, "needles": 6}
"""With many symbols few come twice in a sample, and the last one tells where to read on."""

PANELS = ("loss", "rotary", "extrapolation", "recall", "writing", "learning", "rows")
PRESETS: Mapping[str, Preset] = {
    "quick": Preset(
        about="8 encodings in models of 2 layers on 64 characters, asked about up to 512, 3 seeds: about four "
        "minutes on two cores",
        scale="2 layers of width 64, windows of 64 tokens, 600 steps of 32 windows",
        seeds=(0, 1, 2),
        panels=("loss", "extrapolation", "writing", "learning", "rows"),
        asks=False,
        own={
            "extrapolation": rows.MAIN,
            "window": 64,
            "multiple": 8,
            "targets": 2048,
            "model": QUICK,
            "training": training(600, 32),
            "recall": RECALL,
        },
    ),
    "standard": Preset(
        about="23 encodings in models of 2 layers on 256 characters, asked about up to 4,096, recall, 5 seeds: three "
        "hours on two cores",
        scale="2 layers of width 64, windows of 256 tokens, 1,000 steps of 16 windows",
        seeds=tuple(range(5)),
        panels=PANELS,
        own={
            "extrapolation": rows.EXTRAPOLATION,
            "window": 256,
            "multiple": 16,
            "targets": 2048,
            "model": QUICK,
            "training": training(1000, 16),
            "recall": RECALL,
        },
    ),
    "paper": Preset(
        about="the same in models of 4 layers of width 128: about half a day on two cores",
        scale="4 layers of width 128, windows of 256 tokens, 1,500 steps of 16 windows",
        seeds=tuple(range(5)),
        panels=PANELS,
        own={
            "extrapolation": rows.EXTRAPOLATION,
            "window": 256,
            "multiple": 16,
            "targets": 2048,
            "model": LARGER,
            "training": training(1500, 16, lr=2e-3),
            "recall": RECALL | {"training": training(3000, 64)},
        },
    ),
}  # fmt: skip


def of_text(*labels: Sequence[str]) -> Callable[[Request, Preset], Needs]:
    """Rows on the text, with those that are counted beside them."""

    def needs(request: Request, preset: Preset) -> Needs:
        return {"main": (*(label for some in labels for label in some), *rows.COUNTED)}

    return needs


def of_extrapolation(request: Request, preset: Preset) -> Needs:
    """A preset that shows it beside others shows its own rows; asked for by name, it has all."""
    own = preset.own["extrapolation"] if request.panels is None else rows.EXTRAPOLATION
    return {"main": (*own, *rows.COUNTED)}


def of_recall(request: Request, preset: Preset) -> Needs:
    return dict.fromkeys(TASKS, rows.RECALLING)


def nothing(request: Request, preset: Preset) -> Needs:
    return {}


def settle(request: Request, store: Store, setting: str, label: str) -> dict[str, Any]:
    """A unit's settings. Raises ValueError for a text that is not there or too short, and a row that does not fit."""
    own = PRESETS[request.preset].own
    if setting in TASKS:
        return _recall(own, setting, label, request.device)
    window = own["window"]
    text = keep(store.root, find(request.source, request.data), window=window, multiple=own["multiple"])
    settings: dict[str, Any] = {"text": msgspec.to_builtins(text), "window": window, "targets": own["targets"]}
    if label in rows.COUNTED:
        return {**settings, "order": rows.COUNTED[label]}
    config = LanguageConfig(vocabulary=text.vocabulary, **own["model"])
    return settings | _of_row(label, config, window, text.multiple * window, own["training"], request.device)


def _recall(own: Mapping[str, Any], task: str, label: str, device: str) -> dict[str, Any]:
    asked = own["recall"]
    config = LanguageConfig(vocabulary=SPECIAL + KINDS[task] * asked["symbols"], **asked["model"])
    window, reach = asked["window"], recalling.MULTIPLES[-1] * asked["window"]
    told = {"name": task, "symbols": asked["symbols"], **({"needles": asked["needles"]} if task == "needle" else {})}
    return {"task": told, "window": window, **_of_row(label, config, window, reach, asked["training"], device)}


def _of_row(
    label: str, config: LanguageConfig, window: int, reach: int, training: TrainingConfig, device: str
) -> dict[str, Any]:
    row = rows.row(label, config, reach=reach)
    try:
        row.model(window)  # what does not fit is said now, and not after hours
    except ValueError as error:
        raise ValueError(f"the row {label!r} cannot be built: {error}") from None
    found = {"row": msgspec.to_builtins(row), "training": training.plain, "device": device}
    if label in rows.STRETCHED:
        found |= {"schedule": rows.STRETCHED[label], "trained_as": rows.trained_as(label)}
    return found
