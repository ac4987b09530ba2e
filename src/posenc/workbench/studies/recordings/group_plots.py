"""Panels of the groups of channels: the list, a map colored by group, and the agreement by number of groups."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from posenc.measure.distances import multidimensional_scaling
from posenc.measure.modularity import adjusted_rand
from posenc.workbench.report import token_map
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Block, Panel, Table, Text
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.studies.recordings.channel_groups import (
    STABLE,
    ChannelGroups,
    Grouping,
    channel_groups,
    groupings_by_variant,
)
from posenc.workbench.studies.recordings.group_report import MODULES_FILE, group_name, method, rows, write_modules
from posenc.workbench.studies.recordings.plots import ERROR
from posenc.workbench.studies.shared.page_data import PageData

TITLE = "Groups of channels"
UNFOLDED_CHANNELS = 40
"""Largest number of channels whose table is open."""
ENCODINGS_TITLE = "Groups by encoding"


def groups(data: PageData) -> list[Panel]:
    """List the groups, map them, and show the agreement that chose their number; write the CSV file beside the page."""
    found = channel_groups(data)
    if found is None:
        return [Panel(TITLE, (Text(("No run in this condition has finished.",)),))]
    data.folder.mkdir(parents=True, exist_ok=True)
    path = write_modules(data.beside(MODULES_FILE), data)
    blocks: list[Block] = [_summary(found)]
    if found.chosen is not None and path is not None:
        blocks.append(_channel_table(data, path.name))
    blocks.append(Text(method(found)))
    return [Panel(TITLE, tuple(blocks)), *_maps(found), *_agreement(found)]


def _summary(found: ChannelGroups) -> Table:
    """Table of both kinds of groups."""
    body = tuple(
        (
            "correlation matrix (no training)" if each is found.correlation else f"learned tables of {each.name}",
            str(each.number) if each.stable else f"none reported (best: {each.number})",
            "–" if each.chosen_agreement is None else number(each.chosen_agreement),
            "–" if each.p is None else number(each.p, 3),
            f"{each.equal_seeds} of {len(each.by_seed)}",
            "–" if each.left_out_agree is None else number(float(each.left_out_agree.mean())),
            _rand(found.agreement_with_modules(each)),
        )
        for each in (found.learned, found.correlation)
        if each is not None
    )
    both = "" if found.both_agree is None else f" Adjusted Rand index of both: {number(found.both_agree)}."
    return Table(
        "Groups of the learned tables and of the correlation matrix",
        (
            "groups of", "number of groups", "agreement (adjusted Rand index)", "p in held-out recordings",
            "seeds with equal groups", f"channels kept without one of the {found.unit} (mean share)",
            "adjusted Rand index against the given modules",
        ),
        body,
        f"Agreement: 1 for equal groups, about 0 by chance.{both}",
        prose=True,
    )  # fmt: skip


def _rand(value: float | None) -> str:
    return "–" if value is None else number(value)


def _channel_table(data: PageData, file: str) -> Table:
    """Table of the channels, the rows of the CSV file."""
    lines = sorted(rows(data), key=lambda row: (int(row["group"].split(" ")[1]), row["channel"]))
    columns = {
        "channel": "channel",
        "group": "group",
        "seeds_agree": "share of seeds that agree",
        "left_out_agree": "share that agrees with one left out",
        "nearest_other_group": "nearest other group",
        "correlation_group": "group by correlation",
    }
    body = tuple(tuple(_cell(row[key]) for key in columns) for row in lines)
    note = f"{file}, in the folder of this page, has these columns and the groups of every seed."
    return Table("Group of each channel", tuple(columns.values()), body, note, folded=len(body) > UNFOLDED_CHANNELS)


def _cell(value: object) -> str:
    return "–" if value is None else number(value) if isinstance(value, float) else str(value)


def _maps(found: ChannelGroups) -> list[Panel]:
    """Maps of the channels by the distances of both kinds of groups, colored by the reported groups."""
    chosen = found.chosen
    if chosen is None:
        return []
    items = [
        (name, _points(each), "")
        for name, each in (("learned tables", found.learned), ("correlation matrix", found.correlation))
        if each is not None
    ]
    panel = token_map.token_maps(
        items,
        found.channels,
        [group_name(each) for each in chosen.groups.tolist()],
        title="Map of the channels by group",
        caption="Learned tables: mean distances over seeds. Correlation matrix: sqrt(2 − 2r) over all recordings. Both "
        "maps have the colors of the reported groups.",
    )
    return [panel]


def _points(grouping: Grouping) -> np.ndarray:
    """Points in the plane whose distances are near to those of a grouping."""
    return multidimensional_scaling(_table(grouping.distances)).points.numpy()


def _table(distances: Tensor) -> Tensor:
    """Points with Euclidean distances near to the given ones: the square root of the doubly centered squares."""
    squares = distances.double().square()
    centered = squares - squares.mean(0) - squares.mean(1)[:, None] + squares.mean()
    values, vectors = torch.linalg.eigh(-centered / 2)
    return vectors * values.clamp(min=0).sqrt()


def _agreement(found: ChannelGroups) -> list[Panel]:
    """Agreement by number of groups, which chooses the number."""
    series = {
        name: {float(count): {0: value} for count, value in each.agreement.items()}
        for name, each in (("learned tables", found.learned), ("correlation matrix", found.correlation))
        if each is not None and each.agreement
    }
    if not series:
        return []
    return [
        line_plot(
            series,
            title="Agreement by number of groups",
            x_label="number of groups",
            y_label="adjusted Rand index",
            chance=0.0,
            caption="Learned tables: mean over pairs of seeds. Correlation matrix: mean over divisions of the "
            f"{found.unit} into two halves. The highest value chooses the number; groups are reported from "
            f"{number(STABLE)} on.",
        )
    ]


def groups_by_encoding(data: PageData) -> list[Panel]:
    """Table of all encodings: prediction error, and the groups of their learned tables."""
    found, errors = channel_groups(data), values_by_scheme(data.rows, ERROR)
    if found is None:
        return [Panel(ENCODINGS_TITLE, (Text(("No run in this condition has finished.",)),))]
    groupings, body = groupings_by_variant(data), []
    for label in sorted(errors, key=lambda label: float(np.mean(list(errors[label].values())))):
        each = groupings.get(label)
        cells = ("–",) * 4
        if each is not None:
            same = None if found.correlation is None else adjusted_rand(each.groups, found.correlation.groups)
            cells = (
                str(each.number) if each.stable else "none that repeat",
                "–" if each.chosen_agreement is None else number(each.chosen_agreement),
                _rand(same),
                _rand(found.agreement_with_modules(each)),
            )
        body.append((label, number(float(np.mean(list(errors[label].values()))), 3), *cells))
    columns = (
        "encoding", "mean squared error, 90% of the channels hidden", "number of groups", "agreement of seeds",
        "adjusted Rand index against the correlation matrix", "adjusted Rand index against the given modules",
    )  # fmt: skip
    note = "The lowest error first. A dash: no learned table, or no given modules."
    return [Panel(ENCODINGS_TITLE, (Table("Error and groups of every encoding", columns, tuple(body), note),))]
