"""What the pages of studies that classify pictures have alike: accuracies, convergence, and what each row is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from posenc.report.page import Panel, Table, Text
from posenc.report.panels import accuracy_by_scheme, learning_curves
from posenc.report.rows import BySeed, values
from posenc.store import Unit
from posenc.studies.found import Found, plain_label
from posenc.studies.picture_sets import Pictures

FEW_CLASSES = 5
"""With so many classes or fewer, the right one is always among the first five."""
TOP = "accuracy_top5"
METRICS = {
    "accuracy": "held-out pictures",
    "accuracy_per_class": "mean of classes",
    TOP: "among the first five",
    "accuracy_train": "pictures it learned from",
}
LEARNED = ("accuracy", "accuracy_train")
NOTHING = "No unit of this panel has finished."


def there(found: Found, settings: Sequence[str]) -> list[str]:
    """Those of the settings in which something has finished."""
    run = {unit.setting for unit in found.done}
    return [name for name in settings if name in run]


def empty(title: str) -> list[Panel]:
    return [Panel(title, (Text((NOTHING,)),))]


def of(found: Found, metric: str, setting: str) -> dict[str, BySeed]:
    """label -> seed -> value, labels as in the main setting."""
    return {label.removesuffix(f", {setting}"): seeds for label, seeds in values(found.rows, metric, setting).items()}


def named(rows: Sequence[Mapping[str, Any]], setting: str, labels: Sequence[str]) -> list[dict[str, Any]]:
    """The store's rows of these labels in a setting, by their label in the main setting."""
    plain = [
        {**row, "scheme": str(row["scheme"]).removesuffix(f", {setting}")} for row in rows if row["setting"] == setting
    ]
    return [row for row in plain if row["scheme"] in labels]


def pictures_of(found: Found, setting: str) -> Pictures:
    """The pictures of a setting that has units."""
    unit = next(unit for unit in found.units if unit.setting == setting)
    return msgspec.convert(unit.settings["pictures"], Pictures)


def accuracies(
    found: Found, labels: Sequence[str], setting: str, title: str, caption: str = "", metrics: Sequence[str] = LEARNED
) -> Panel:
    """Accuracies of rows, every seed. metrics: of METRICS, one picture each."""
    classes = pictures_of(found, setting).classes
    shown = {name: METRICS[name] for name in metrics if classes > FEW_CLASSES or name != TOP}
    return accuracy_by_scheme(
        named(found.rows, setting, labels),
        metrics=shown,
        chance=1 / classes,
        baselines={TOP: {"chance": FEW_CLASSES / classes}},
        setting=setting,
        title=title,
        caption=caption,
    )


def convergence(found: Found, labels: Sequence[str], setting: str, title: str) -> Panel:
    """Accuracies of rows by epoch, while they learned."""
    pictures = pictures_of(found, setting)
    caption = "Held-out accuracy is that of some of the pictures while a model learns, and of all in the other panels."
    return learning_curves(
        named(found.curves, setting, labels),
        metrics={name: METRICS[name] for name in LEARNED},
        chance=1 / pictures.classes,
        setting=setting,
        title=title,
        caption=caption,
    )


def what_rows_are(
    found: Found, titles: Mapping[str, str], about: Callable[[str, str], str], told: Callable[[Unit], str]
) -> list[Panel]:
    """What each row is, setting by setting. about: (setting, label) -> words; told: a unit's scheme and options."""
    panels = []
    for setting in there(found, list(titles)):
        counts, body = of(found, "parameters", setting), []
        for label in found.labels(setting):
            unit = next(u for u in found.units if u.setting == setting and plain_label(u) == label)
            numbers = sorted({round(value) for value in counts.get(label, {}).values()})
            trained = " to ".join(f"{number:,}" for number in numbers) or "not run"
            body.append((label, about(setting, label), told(unit), trained))
        pictures = pictures_of(found, setting)
        channels, height, width = pictures.shape
        note = (
            f"{pictures.name}: {pictures.train:,} pictures to learn from and {pictures.test:,} held out, "
            f"{height} x {width} with {channels} {'colours' if channels > 1 else 'shade of grey'}, {pictures.classes} "
            "classes."
        )
        columns = ("Row", "What it is", "Scheme", "Trained numbers")
        table = Table("What each row is", columns, tuple(body), note, prose=True)
        panels.append(Panel(f"The rows{titles[setting]}", (table,)))
    return panels or empty("The rows")


def scheme_text(specification: Mapping[str, Any] | None) -> str:
    """A scheme with its options, as a unit's settings keep it."""
    if specification is None:
        return "none"
    options = ", ".join(f"{name}={_short(value)}" for name, value in specification["options"].items())
    return f"{specification['scheme']}({options})"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
