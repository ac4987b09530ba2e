"""Groups of channels: of the learned tables of a page, and of the plain correlation matrix, each with its stability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from posenc.measure.distances import token_distances
from posenc.measure.modularity import adjusted_rand
from posenc.measure.stable_groups import (
    combined_p,
    correlation_distances,
    correlation_within_groups_p,
    groups_by_number,
    matched_groups,
    mean_distances,
    most_stable,
    nearest_other_group,
    numbers_of_groups,
    share_of_agreement,
    stability,
)
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.recordings.correlations import ChannelCorrelations, read_correlations
from posenc.workbench.studies.recordings.stored_recordings import stored_record, unit_of
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.hidden_tokens.trained_tables import learned_labels
from posenc.workbench.studies.shared.hidden_tokens.variants import LEARNED
from posenc.workbench.studies.shared.page_data import PageData

CORRELATION = "correlation"
"""Name of the groups of the correlation matrix, for which nothing is trained."""
STABLE, SIGNIFICANT = 0.5, 0.05
"""Least agreement, and largest p-value on recordings that were held out, of groups that are reported."""
HALVES = 10
"""Divisions of the recordings into two halves, on which the groups of the correlation matrix are compared."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Grouping:
    """Groups of the channels by one kind of distances.

    Attributes:
        name: The variant whose tables have the distances, or "correlation".
        agreement: Number of groups to the mean adjusted Rand index of two repetitions; empty if nothing was repeated.
        number: The chosen number of groups.
        p: P-value of the correlation within groups, in recordings that did not decide them; None if not measured.
        groups: Group of each channel ``(N,)``, from 0.
        by_seed: Seed to the groups of its table, or of the recordings that it was trained on.
        left_out: Recording or subject to the groups without it.
        distances: Distances between channels ``(N, N)`` that decide ``groups``.
    """

    name: str
    agreement: Mapping[int, float]
    number: int
    p: float | None
    groups: Tensor
    by_seed: Mapping[int, Tensor]
    left_out: Mapping[str, Tensor]
    distances: Tensor

    @property
    def chosen_agreement(self) -> float | None:
        """Agreement at the chosen number of groups; None if nothing was repeated."""
        return self.agreement.get(self.number)

    @property
    def stable(self) -> bool:
        """True if the groups repeat, and hold in recordings that did not decide them."""
        repeats = (self.chosen_agreement or 0.0) >= STABLE
        return repeats and (self.p is None or self.p <= SIGNIFICANT)

    @property
    def seeds_agree(self) -> Tensor:
        """Share of the seeds that put each channel into its group ``(N,)``."""
        return share_of_agreement(list(self.by_seed.values()), self.groups)

    @property
    def left_out_agree(self) -> Tensor | None:
        """Share of the repetitions without one recording that keep each channel in its group ``(N,)``."""
        return share_of_agreement(list(self.left_out.values()), self.groups) if self.left_out else None

    @property
    def equal_seeds(self) -> int:
        """Number of seeds whose groups are the groups, for every channel."""
        return sum(torch.equal(each, self.groups) for each in self.by_seed.values())

    @property
    def nearest(self) -> Tensor:
        """The nearest other group of each channel ``(N,)``."""
        return nearest_other_group(self.distances, self.groups)


class ChannelGroups(NamedTuple):
    """Groups of the channels of a page.

    Attributes:
        channels: Names of the channels.
        modules: Given module of each channel, or None.
        unit: What is left out at a time: "recordings" or "subjects".
        units: Number of recordings or subjects.
        learned: Groups of the learned tables; None without such a table.
        correlation: Groups of the correlation matrix; None if the store lacks the recordings.
    """

    channels: tuple[str, ...]
    modules: tuple[str, ...] | None
    unit: str
    units: int
    learned: Grouping | None
    correlation: Grouping | None

    @property
    def chosen(self) -> Grouping | None:
        """The groups to report: those of the learned tables, else of the correlations; None if none are stable."""
        return next((each for each in (self.learned, self.correlation) if each is not None and each.stable), None)

    @property
    def both_agree(self) -> float | None:
        """Adjusted Rand index of the groups of the learned tables and of the correlation matrix."""
        if self.learned is None or self.correlation is None:
            return None
        return adjusted_rand(self.learned.groups, self.correlation.groups)

    def agreement_with_modules(self, grouping: Grouping) -> float | None:
        """Adjusted Rand index of groups and the given modules; None without given modules."""
        return None if self.modules is None else adjusted_rand(grouping.groups, self.modules)


def channel_groups(data: PageData) -> ChannelGroups | None:
    """Find the groups of the channels of a page, once for each page.

    Args:
        data: Data of the page.

    Returns:
        The groups; None if no run in the main condition has finished.
    """
    if "channel groups" not in data.computed:
        data.computed["channel groups"] = _channel_groups(data)
    return data.computed["channel groups"]


def _channel_groups(data: PageData) -> ChannelGroups | None:
    runs = _runs(data)
    if not runs:
        return None
    record = stored_record(data.store.root, runs[0].settings["data"]["recordings"])
    correlations, correlation = _correlations(data), None
    if correlations is not None:
        correlation = _of_correlations(correlations, sorted({spec.seed for spec in runs}))
    usual = 2 if correlation is None else correlation.number
    variants = [*LEARNED, *(label for label in data.labels(MAIN) if label not in LEARNED)]
    learned = next(filter(None, (_of_tables(data, label, correlations, usual) for label in variants)), None)
    if correlation is not None and learned is not None and learned.stable:
        correlation = _numbered_as(correlation, learned)
    count = int(runs[0].settings["data"]["tokens"])
    return ChannelGroups(
        channels=tuple(f"channel {n + 1}" for n in range(count)) if record is None else record.channels,
        modules=None if record is None else record.modules,
        unit="recordings" if record is None or record.subjects is None else unit_of(record),
        units=0 if correlations is None else len(correlations.units),
        learned=learned,
        correlation=correlation,
    )


def groupings_by_variant(data: PageData) -> dict[str, Grouping]:
    """Find the groups of the learned tables of every variant of a page.

    Args:
        data: Data of the page.

    Returns:
        Variant to its groups; variants without a learned table are absent.
    """
    found = channel_groups(data)
    usual = 2 if found is None or found.correlation is None else found.correlation.number
    made = {label: _of_tables(data, label, _correlations(data), usual) for label in data.labels(MAIN)}
    return {label: each for label, each in made.items() if each is not None}


def _runs(data: PageData) -> list[RunSpec]:
    """Finished runs of the main condition on the data of the first one."""
    runs = [spec for spec in data.done if spec.condition == MAIN]
    return [spec for spec in runs if spec.settings["data"] == runs[0].settings["data"]]


def _correlations(data: PageData) -> ChannelCorrelations | None:
    """Correlations of the recordings of a page; None if the store lacks them."""
    if "correlations" not in data.computed:
        made = None
        for spec in _runs(data)[:1]:
            digest = spec.settings["data"]["recordings"]
            record = stored_record(data.store.root, digest)
            if record is not None:
                made = read_correlations(data.store.root, digest, record, own="split" in spec.settings)
        data.computed["correlations"] = made
    return data.computed["correlations"]


def _of_tables(data: PageData, label: str, correlations: ChannelCorrelations | None, usual: int) -> Grouping | None:
    """Groups of the learned tables of a variant.

    Args:
        data: Data of the page.
        label: The variant.
        correlations: Correlations of the recordings, for the test in recordings that a seed held out; None without.
        usual: Number of groups where a single seed cannot choose one.

    Returns:
        The groups; None if the variant has no learned table.
    """
    runs = {spec.seed: spec for spec in data.done if (spec.condition, spec.variant) == (MAIN, label)}
    arrays = {seed: data.store.arrays(runs[seed].identity) for seed in sorted(runs)}
    tables = {seed: np.array(each["table"]) for seed, each in arrays.items() if "table" in each}
    same = len(tables) > 1 and all(np.array_equal(table, next(iter(tables.values()))) for table in tables.values())
    if not tables or same or label not in learned_labels(data):
        return None
    distances = {seed: token_distances(torch.from_numpy(table)) for seed, table in tables.items()}
    numbers = numbers_of_groups(len(next(iter(distances.values()))))
    divisions = {seed: groups_by_number(each, numbers) for seed, each in distances.items()}
    agreement = stability(list(combinations(divisions.values(), 2)))
    number = most_stable(agreement) if agreement else usual
    by_seed = {seed: each[number] for seed, each in divisions.items()}
    p, left_out = None, dict[str, Tensor]()
    if correlations is not None:
        held_out = {seed: correlations.held_out(seed) for seed in by_seed}
        p = combined_p([correlation_within_groups_p(held_out[seed], each, seed=seed) for seed, each in by_seed.items()])
        left_out = {
            unit: mean_distances([distances[seed] for seed in without])
            for unit in correlations.units
            if (without := [seed for seed in distances if not correlations.trained_on(seed, unit)])
        }
    consensus = mean_distances(list(distances.values()))
    return _grouping(label, agreement, number, p, consensus, by_seed, left_out)


def _of_correlations(correlations: ChannelCorrelations, seeds: Sequence[int]) -> Grouping:
    """Groups of the correlation matrix; the number of groups is chosen on halves of the recordings."""
    whole = correlation_distances(correlations.of(correlations.units))
    numbers = numbers_of_groups(len(whole))
    matrices = [(correlations.of(a), correlations.of(b)) for a, b in _halves(correlations.units)]
    divided = [[groups_by_number(correlation_distances(each), numbers) for each in pair] for pair in matrices]
    agreement = stability([(a, b) for a, b in divided])
    number = most_stable(agreement) if agreement else 2
    tests = [
        correlation_within_groups_p(pair[1 - side], groups[side][number])
        for pair, groups in zip(matrices, divided, strict=True)
        for side in (0, 1)
    ]
    trained = {seed: correlation_distances(correlations.of(correlations.training(seed))) for seed in seeds}
    by_seed = {seed: groups_by_number(each, [number])[number] for seed, each in trained.items()}
    others = {unit: [each for each in correlations.units if each != unit] for unit in correlations.units}
    left_out = {unit: correlation_distances(correlations.of(some)) for unit, some in others.items() if some}
    return _grouping(CORRELATION, agreement, number, combined_p(tests) if tests else None, whole, by_seed, left_out)


def _halves(units: list[str]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Random divisions of the recordings or subjects into two halves, each once."""
    if len(units) < 2:
        return []
    generator, middle = np.random.Generator(np.random.Philox(key=0)), len(units) // 2
    orders = [[str(units[each]) for each in generator.permutation(len(units)).tolist()] for _ in range(HALVES)]
    made = [(tuple(sorted(order[:middle])), tuple(sorted(order[middle:]))) for order in orders]
    return sorted({(min(a, b), max(a, b)) for a, b in made})


def _grouping(
    name: str,
    agreement: Mapping[int, float],
    number: int,
    p: float | None,
    distances: Tensor,
    by_seed: Mapping[int, Tensor],
    left_out: Mapping[str, Tensor],
) -> Grouping:
    """Groups with the repetitions renumbered as they are."""
    groups = groups_by_number(distances, [number])[number]
    return Grouping(
        name=name,
        agreement=agreement,
        number=number,
        p=p,
        groups=groups,
        by_seed={seed: matched_groups(each, groups) for seed, each in by_seed.items()},
        left_out={
            unit: matched_groups(groups_by_number(each, [number])[number], groups) for unit, each in left_out.items()
        },
        distances=distances,
    )


def _numbered_as(grouping: Grouping, reference: Grouping) -> Grouping:
    """A grouping with the numbers of the groups of another one."""
    groups = matched_groups(grouping.groups, reference.groups)
    number_of = dict(zip(grouping.groups.tolist(), groups.tolist(), strict=True))

    def renumbered(some: Tensor) -> Tensor:
        return torch.tensor([number_of.get(each, each + len(some)) for each in some.tolist()])

    return Grouping(
        name=grouping.name,
        agreement=grouping.agreement,
        number=grouping.number,
        p=grouping.p,
        groups=groups,
        by_seed={seed: renumbered(each) for seed, each in grouping.by_seed.items()},
        left_out={unit: renumbered(each) for unit, each in grouping.left_out.items()},
        distances=grouping.distances,
    )
