"""Comparison of the chosen candidate with the controls: bare coordinates, no positions, the index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from posenc.measure.statistics import Estimate
from posenc.workbench.advice.kinds import BARE
from posenc.workbench.advice.paired_gaps import negated, paired_gaps
from posenc.workbench.advice.race import Look, Race, RacePlan, Score
from posenc.workbench.advice.trainer import StudyTrainer
from posenc.workbench.advice.verdict import FEWEST_SEEDS
from posenc.workbench.storage.store import Store

LEVEL = 0.95
"""Coverage of the intervals of all controls together (Bonferroni)."""


class ControlGap(NamedTuple):
    """Difference of the chosen candidate from a control.

    Attributes:
        name: Name of the control.
        reason: Reason for the control, such as "bare coordinates".
        gap: The difference, positive if the chosen candidate is better; None without two common seeds.
        look: Comparison of the race that it is from, on the validation part; None for the test part.
    """

    name: str
    reason: str
    gap: Estimate | None
    look: Look | None = None


def control_scores(
    trainer: StudyTrainer, store: Store, race: Race, plan: RacePlan, candidates: Sequence[str]
) -> dict[str, dict[int, float]]:
    """Scores of the controls on the test part. Controls that were dropped are trained while time is left, on few seeds.

    Args:
        trainer: Trainer of the race.
        store: Store of its runs.
        race: The race.
        plan: Its plan.
        candidates: Candidates that fit the data, in the race or not.

    Returns:
        Control -> seed -> score, larger is better. Bare coordinates come first.
    """
    last, chosen = race.looks[-1], race.verdict.chosen
    controls = [name for name in candidates if trainer.candidates[name].control and name != chosen]
    controls.sort(key=lambda name: trainer.candidates[name].control != BARE)
    made: dict[str, dict[int, float]] = {}
    for name in controls:
        seeds = plan.testing(last.scores[chosen])
        specs = [spec for spec in trainer.specs(store, name, last.rung) if spec.seed in seeds]
        lacking = [spec for spec in specs[:FEWEST_SEEDS] if not store.finished(spec.identity)]
        if trainer.deadline is None or trainer.deadline.remaining() > 0:
            trainer.execute(store, lacking)
        done = [spec for spec in specs if store.finished(spec.identity)]
        made[name] = {spec.seed: trainer.score(store.read(spec.identity)).test for spec in done}
    return made


def control_gaps(
    race: Race, plan: RacePlan, reasons: Mapping[str, str], tested: Mapping[str, Mapping[int, float]]
) -> list[ControlGap]:
    """Differences of the chosen candidate from controls: on the test part, or where it lacks scores, in the race.

    The scores of the other candidates count for the variance of a difference, as in all comparisons (``paired_gaps``).

    Args:
        race: The race.
        plan: Its plan.
        reasons: Control to its reason.
        tested: Control -> seed -> score on the test part.

    Returns:
        One difference per control.
    """
    chosen, last = race.verdict.chosen, race.looks[-1].scores
    level = 1 - (1 - LEVEL) / max(1, len(tested))
    seeds = plan.testing(last[chosen])
    made = []
    for name, scores in tested.items():
        look = None
        values = {each: {seed: last[each][seed].test for seed in seeds} for each in last} | {name: scores}
        ratio = plan.test_ratio
        if len([seed for seed in seeds if seed in scores]) < 2:
            look = next((each for each in reversed(race.looks) if {name, chosen} <= each.scores.keys()), None)
            values, ratio = _validation(look), plan.validation_ratio
        gap = negated(paired_gaps(values, chosen, ratio=ratio, level=level)[name]) if values else None
        made.append(ControlGap(name, reasons[name], gap, look))
    return made


def _validation(look: Look | None) -> dict[str, dict[int, float]]:
    """Scores of the candidates on the validation part after a rung; empty without one."""

    def by_seed(scores: Mapping[int, Score]) -> dict[int, float]:
        return {seed: score.validation for seed, score in scores.items()}

    return {} if look is None else {name: by_seed(scores) for name, scores in look.scores.items()}
