"""What panels of the image study set side by side: rows of one setting, and their means over several pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from posenc.measure.statistics import mean, t_interval
from posenc.report.page import Table
from posenc.report.rows import interval, number, values
from posenc.studies.found import Found
from posenc.studies.image_fit.choosing import GAUSSIAN, HELD, choose
from posenc.studies.image_fit.presets import kind_of
from posenc.studies.image_fit.rows import AUTHORS, OF_SIGMA

PSNR = "psnr"
Shown = TypeVar("Shown")


def of_kind(found: Found, kind: str) -> list[str]:
    """The settings of a kind of panel that have units."""
    return [name for name in found.settings if kind_of(name) == kind]


def reached(found: Found, setting: str) -> dict[str, float]:
    """Mean PSNR over seeds by row, the nearest first."""
    held = values(found.rows, PSNR, setting)
    means = {name.removesuffix(f", {setting}"): mean(list(seeds.values())) for name, seeds in held.items()}
    return dict(sorted(means.items(), key=lambda pair: -pair[1]))


def compared(found: Found, by_label: Mapping[str, Shown]) -> dict[str, Shown]:
    """What is compared in one picture: of the Gaussian features those with the chosen sigma, where they were fitted."""
    chosen = choose(found.rows).label(GAUSSIAN)
    kept = next((label for label in (chosen, AUTHORS) if label in by_label), "")
    return {label: one for label, one in by_label.items() if not kept or label == kept or label not in OF_SIGMA}


def means_over(found: Found, settings: Sequence[str], labels: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    """Row -> setting -> mean PSNR over seeds, of rows that every setting has, the nearest first; only `labels` of them,
    where they are named."""
    by_setting = {setting: reached(found, setting) for setting in settings}
    everywhere = [label for label in by_setting[settings[0]] if all(label in means for means in by_setting.values())]
    kept = {label: {name: means[label] for name, means in by_setting.items()} for label in everywhere
            if not labels or label in labels}  # fmt: skip
    return dict(sorted(kept.items(), key=lambda pair: -mean(list(pair[1].values()))))


def over_pictures(
    found: Found,
    settings: Sequence[str],
    caption: str,
    labels: Sequence[str] = (),
    published: Mapping[str, float] | None = None,
    note: str = "",
) -> Table:
    """Rows by pictures, each with its interval over seeds, and the mean over pictures with that over them."""
    body = []
    for label, means in means_over(found, settings, labels).items():
        estimate = t_interval(list(means.values()))
        each = [_cell(list(_seeds(found, setting, label))) for setting in settings]
        beside = [number(published[label]) if label in published else "–"] if published is not None else []
        body.append((label, number(estimate.mean), interval(estimate), *beside, *each))
    columns = ("Encoding", "Mean", "95% interval over pictures", *(["Published of others"] if published else []))
    return Table(caption, (*columns, *(name.removesuffix(HELD) for name in settings)), tuple(body), note)


def _seeds(found: Found, setting: str, label: str) -> Sequence[float]:
    held = values(found.rows, PSNR, setting)
    return list(next(seeds for name, seeds in held.items() if name.removesuffix(f", {setting}") == label).values())


def _cell(seeds: Sequence[float]) -> str:
    estimate = t_interval(seeds)
    return f"{number(estimate.mean)} {interval(estimate)}" if estimate.known else number(estimate.mean)
