"""PSNR of the variants in one condition, and its mean over images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from posenc.measure.statistics import mean, t_interval
from posenc.workbench.report.number_format import interval, number
from posenc.workbench.report.page import Table
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.studies.image_fit.conditions import image_title, protocol_of
from posenc.workbench.studies.image_fit.scale_selection import GAUSSIAN, select_scales
from posenc.workbench.studies.image_fit.variants import PUBLISHED_SIGMA, SIGMA_OF
from posenc.workbench.studies.shared.page_data import PageData

PSNR = "psnr"
Value = TypeVar("Value")


def conditions_of(data: PageData, protocol: str) -> list[str]:
    """Conditions of a protocol on the page."""
    return [name for name in data.conditions if protocol_of(name) == protocol]


def mean_psnr(data: PageData, condition: str) -> dict[str, float]:
    """Variant to mean PSNR over seeds, the highest first."""
    means = {name: mean(list(seeds.values())) for name, seeds in values_by_scheme(data.rows, PSNR, condition).items()}
    return dict(sorted(means.items(), key=lambda pair: -pair[1]))


def one_sigma(data: PageData, by_variant: Mapping[str, Value]) -> dict[str, Value]:
    """Entries of the variants to compare; of the Gaussian features, only the selected or the published sigma."""
    selected = select_scales(data.rows).label(GAUSSIAN)
    sigma = next((label for label in (selected, PUBLISHED_SIGMA) if label in by_variant), "")
    return {label: value for label, value in by_variant.items() if not sigma or label == sigma or label not in SIGMA_OF}


def means_over_images(
    data: PageData, conditions: Sequence[str], variants: Sequence[str] = ()
) -> dict[str, dict[str, float]]:
    """Variant to condition to mean PSNR over seeds.

    Args:
        data: Data of the page.
        conditions: Conditions with one image each.
        variants: Variants to include; all by default.

    Returns:
        The variants that every condition has, the highest mean first.
    """
    by_condition = {name: mean_psnr(data, name) for name in conditions}
    common = [
        label
        for label in by_condition[conditions[0]]
        if all(label in means for means in by_condition.values()) and (not variants or label in variants)
    ]
    means = {label: {name: by_condition[name][label] for name in conditions} for label in common}
    return dict(sorted(means.items(), key=lambda pair: -mean(list(pair[1].values()))))


def image_table(
    data: PageData,
    conditions: Sequence[str],
    caption: str,
    variants: Sequence[str] = (),
    published: Mapping[str, float] | None = None,
    note: str = "",
) -> Table:
    """Table of PSNR: a row per variant, a column per image with its interval over seeds, and the mean over images.

    Args:
        data: Data of the page.
        conditions: Conditions with one image each.
        caption: Caption of the table.
        variants: Variants to include; all by default.
        published: Variant to its published PSNR in dB.
        note: Text below the table.

    Returns:
        The table.
    """
    body = []
    values = {name: values_by_scheme(data.rows, PSNR, name) for name in conditions}
    for label, means in means_over_images(data, conditions, variants).items():
        estimate = t_interval(list(means.values()))
        cells = [_cell(list(values[name][label].values())) for name in conditions]
        published_cell = [number(published[label]) if label in published else "–"] if published is not None else []
        body.append((label, number(estimate.mean), interval(estimate, over="image"), *published_cell, *cells))
    published_column = ("Published, other images",) if published else ()
    columns = ("Encoding", "Mean over images", "95% interval over images", *published_column)
    return Table(caption, (*columns, *(image_title(name) for name in conditions)), tuple(body), note)


def _cell(seeds: Sequence[float]) -> str:
    estimate = t_interval(seeds)
    return f"{number(estimate.mean)} {interval(estimate)}" if estimate.known else number(estimate.mean)
