"""Scores by which a page compares variants on a user's own data, at the full and at half the budget."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from posenc.measure.budget_comparison import BudgetComparison, Scores, ScoreScale, compare_budgets
from posenc.measure.held_out_interval import HeldOut, proportion_variance
from posenc.measure.least_squares_means import connected_by_seeds, least_squares_means
from posenc.measure.statistics import mean
from posenc.workbench.report.result_rows import BySeed, Row, values_by_scheme
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.shared.declarations import MAIN, half_budget_of
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import metric_bounds

FEW_ITEMS = 100
"""Number of held-out items below which a page states the smallest difference that could have been seen."""


@dataclass(frozen=True, kw_only=True)
class ComparedScore:
    """A score by which the variants of a condition are compared.

    Attributes:
        metric: Stored name of the metric.
        name: Name of the score in sentences, such as "accuracy".
        condition: Label of the condition.
        where: Phrase for the condition, such as "for the ViT"; may be empty.
        unit: Unit of the score; may be empty.
        higher: True if higher scores are better.
        digits: Decimals of the scores.
        chance: Score of a model that has learned nothing: one number, or seed -> score of a baseline; None if it is not
            known.
        chance_name: The baseline whose score is chance, such as "the unigram"; "" for guessing.
        learned_by: The score that shows if the variants have started to learn, where chance is not known of this one.
        proportion: True for a share of the held-out items, such as an accuracy.
        references: Variants that the others are compared with. Those without runs are left out.
        controls: Variants that may stay at chance because they lack what is compared.
        given: Variants to which the compared property is given, so that they are listed and not ranked.
        given_about: Description of these variants, such as "tables that are given, not learned".
        curve: Name of the metric in the learning curves; "" for ``metric``.
        held_out: True for a score of the held-out items.
        factor: Factor from the stored values to the unit.
    """

    metric: str
    name: str
    condition: str = MAIN
    where: str = ""
    unit: str = ""
    higher: bool = True
    digits: int = 3
    chance: float | Mapping[int, float] | None = None
    chance_name: str = ""
    learned_by: ComparedScore | None = None
    proportion: bool = False
    references: Sequence[str] = ()
    controls: Collection[str] = ()
    given: Collection[str] = ()
    given_about: str = ""
    curve: str = ""
    held_out: bool = True
    factor: float = 1.0

    @property
    def ending(self) -> str:
        """The unit after a number: " dB", or ""."""
        return f" {self.unit}" if self.unit else ""

    @property
    def mean_chance(self) -> float | None:
        """Score at chance, the mean over seeds; None if it is not known."""
        if isinstance(self.chance, Mapping):
            return mean(list(self.chance.values())) if self.chance else None
        return self.chance

    @property
    def width(self) -> float:
        """Largest possible difference of two scores; infinite for a score without bounds."""
        low, high = metric_bounds(self.metric)
        return (high - low) * self.factor

    @property
    def title(self) -> str:
        """Name and condition: "accuracy for the ViT"."""
        return f"{self.name} {self.where}".strip()


def compared_accuracy(
    condition: str, where: str, classes: int, references: Sequence[str], controls: Collection[str] = ()
) -> ComparedScore:
    """Accuracy of classification, by which the variants of a condition are compared.

    Args:
        condition: Label of the condition.
        where: Phrase for the condition.
        classes: Number of classes; chance is one divided by it.
        references: Variants that the others are compared with.
        controls: Variants that may stay at chance.

    Returns:
        The score.
    """
    return ComparedScore(
        metric="accuracy",
        name="accuracy",
        condition=condition,
        where=where,
        chance=1 / classes,
        proportion=True,
        references=references,
        controls=controls,
    )


@dataclass(frozen=True)
class ComparedVariants:
    """Scores of the variants of a page under one score, with what is known of the score.

    Attributes:
        score: The score.
        scores: Variant -> its values by seed at both budgets, the best mean first.
        untrained: Baselines without a training, and variants to which the compared property is given. They are not
            ranked.
        scale: Range, chance and held-out items of the score.
        learning: The same variants under the score that shows if they have started to learn; None without one.
    """

    score: ComparedScore
    scores: Mapping[str, Scores]
    untrained: Collection[str]
    scale: ScoreScale
    learning: ComparedVariants | None = None

    @property
    def ranked(self) -> list[str]:
        """Trained variants, the best mean first."""
        return [label for label in self.scores if label not in self.untrained]

    @property
    def references(self) -> list[str]:
        """References that have results."""
        return [label for label in self.score.references if label in self.scores]

    @cached_property
    def means(self) -> Mapping[str, float]:
        """Mean of each variant at the full budget, as if all had the same seeds."""
        return least_squares_means({label: scores.full for label, scores in self.scores.items()})

    @property
    def seeds_differ(self) -> bool:
        """True if a variant lacks a seed that another one has."""
        return len({frozenset(scores.full) for scores in self.scores.values()}) > 1

    @property
    def means_compare(self) -> bool:
        """False if no chain of shared seeds connects the variants, so that their means are of unlike seeds."""
        return connected_by_seeds({label: scores.full for label, scores in self.scores.items()})

    def compare(self, a: str, b: str) -> BudgetComparison | None:
        """Compare two variants; None if they have no seed in common."""
        first, second = self.scores[a], self.scores[b]
        if not first.full.keys() & second.full.keys():
            return None
        made = compare_budgets(first, second, self.scale)
        if made.stated and self.learning is not None and {a, b} <= self.learning.scores.keys():
            learning = self.learning.compare(a, b)
            if learning is not None and learning.reason == "at chance":
                return replace(made, reason=learning.reason)
        return made

    def better(self, comparison: BudgetComparison) -> bool:
        """True if the first variant of a comparison has the better mean."""
        return comparison.difference.mean > 0 if self.score.higher else comparison.difference.mean < 0


def on_own_data(data: PageData) -> bool:
    """Return True if the runs of a page are on a user's data, with a plan for such data.

    Args:
        data: Data of the page.

    Returns:
        True for a page of own data.
    """
    return bool(data.half_specs) or any("split" in spec.settings for spec in data.specs)


def compared(data: PageData, score: ComparedScore) -> ComparedVariants:
    """Collect the values of a score at both budgets.

    Args:
        data: Data of the page.
        score: The score.

    Returns:
        The variants with finished runs.
    """
    full = _values(data.rows, score, score.condition)
    half = _values(data.half_rows, score, half_budget_of(score.condition))
    trained = {spec.variant for spec in _specs(data, score) if "training" in spec.settings}
    untrained = [label for label in full if label not in trained or label in score.given]
    sign, means = -1 if score.higher else 1, least_squares_means(full)
    order = sorted(full, key=lambda label: (sign * means[label], label))
    scores = {
        label: Scores(
            full[label], _half(full, half, label, label in untrained), label in score.controls or label in untrained
        )
        for label in order
    }
    scale = ScoreScale(
        higher=score.higher,
        chance=score.chance,
        bounds=metric_bounds(score.metric),
        held_out=held_out_of(data, score),
        item_variance=proportion_variance if score.proportion else None,
    )
    learning = None if score.learned_by is None else compared(data, score.learned_by)
    return ComparedVariants(score, scores, untrained, scale, learning)


def held_out_of(data: PageData, score: ComparedScore) -> HeldOut | None:
    """Return the held-out items of a score, from the settings of its runs.

    Args:
        data: Data of the page.
        score: The score.

    Returns:
        The items. The validation items count as training items, because they choose the step. None without test items.
    """
    return held_out_items(data, score.condition) if score.held_out else None


def held_out_items(data: PageData, condition: str) -> HeldOut | None:
    """Return the held-out items of a user's data, from the settings of the runs of a condition.

    Args:
        data: Data of the page.
        condition: Label of the condition.

    Returns:
        The items; None for built-in data, and without test items.
    """
    specs = (spec for spec in data.specs if spec.condition == condition and "items" in spec.settings)
    spec = next(specs, None)
    if spec is None or not spec.settings["items"]["test"]:
        return None
    items = spec.settings["items"]
    return HeldOut(items["test"], items["train"] + items["validation"], split_by_seed=spec.settings["split"] == "seed")


def item_noun(data: PageData, score: ComparedScore) -> str:
    """Return the plural noun for the held-out items of a score: "images"."""
    spec = next((spec for spec in _specs(data, score) if "items" in spec.settings), None)
    return "items" if spec is None else str(spec.settings["items"]["unit"])


def _values(rows: Sequence[Row], score: ComparedScore, condition: str) -> dict[str, BySeed]:
    by_label = values_by_scheme(rows, score.metric, condition)
    return {label: {seed: score.factor * value for seed, value in seeds.items()} for label, seeds in by_label.items()}


def _specs(data: PageData, score: ComparedScore) -> list[RunSpec]:
    return [spec for spec in data.specs if spec.condition == score.condition]


def _half(full: Mapping[str, BySeed], half: Mapping[str, BySeed], label: str, untrained: bool) -> BySeed:
    return full[label] if untrained else half.get(label, {})
