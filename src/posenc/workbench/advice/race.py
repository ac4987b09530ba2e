"""Race of candidates: all are trained a little, and those that are shown to be worse are dropped before the next rung.

A rung is a share of the training and a number of seeds. After each rung the candidates are compared on the validation
part, paired by seed. A candidate is dropped if two things hold. The interval of its difference from the leader lies
below 0, at a level that is corrected for all rungs and all candidates. And the difference still has this sign after it
is extended by its last change: 2 d(B) - d(B/2), where d(B) is the difference now, and d(B/2) the difference after half
of the training. Two candidates always stay, because the last comparison is on the test part, which no choice has seen.

Candidates may wait, because the time seemed too short for all. After each rung those that the time allows are trained
as in the first rung, before further seeds of the others. Those that are not shown to be worse there catch up. Few
candidates may be left to compare them with, so the variance is measured with those that were dropped, too.

The race trains nothing itself. It calls a function that returns scores, so that a benchmark can replay stored scores.

References:
    López-Ibáñez et al. 2016, "The irace package", Operations Research Perspectives 3, 43-58 (racing).
    Jamieson and Talwalkar 2016, arXiv 1502.07943 (successive halving).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from posenc.measure.statistics import Estimate, mean
from posenc.workbench.advice.paired_gaps import common_seeds, paired_gaps
from posenc.workbench.advice.verdict import Verdict, verdict_of

FEWEST = 2
"""Candidates that always stay."""
LEAST_FRACTION = 0.5
"""Share of the usual training before which nothing is dropped: encodings overtake each other."""
MORE_SEEDS = (5, 10, 20)
"""Numbers of seeds to which a rung is extended if the time does not suffice for longer trainings."""
LATE_LOOKS = 3
"""Number of times that waiting candidates may enter a race. Intervals are corrected for them."""
SAFETY, START_SECONDS = 1.15, 5.0
"""Factor on the predicted time of a rung, and the time in which its worker processes start."""


class Score(NamedTuple):
    """Scores of one training; a larger score is better.

    Attributes:
        validation: Score on the validation part, by which candidates are chosen.
        earlier: The same after half of the training.
        test: Score on the test part.
        seconds: Duration of the run.
    """

    validation: float
    earlier: float
    test: float
    seconds: float


class Rung(NamedTuple):
    """Share of the training of a candidate, and number of seeds counted from 0."""

    fraction: float
    seeds: int


FIRST_RUNGS = (Rung(0.5, 3), Rung(1.0, 3))
"""Rungs of every race; more seeds follow."""

Scores = Mapping[str, Mapping[int, Score]]
"""Candidate -> seed -> scores."""


class Trainer(Protocol):
    """Function that trains candidates."""

    def __call__(self, candidates: Sequence[str], rung: Rung) -> Scores:
        """Train candidates, or read their stored scores.

        Args:
            candidates: Names of the candidates.
            rung: Share of the training, and number of seeds.

        Returns:
            Scores of the finished trainings; fewer than asked for if the time was over.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class RacePlan:
    """Plan of a race.

    Attributes:
        rungs: Rungs in their order.
        level: Coverage of all intervals of the race together, and of those of the last comparison together.
        validation_ratio: Validation items over training items, if each seed has another split; otherwise 0.
        test_ratio: Test items over training items, if each seed has another split; otherwise 0.
        fresh: True if the data have no held-out part. The seeds of the first rung then choose, and the others test.
        processes: Runs at the same time.
        fixed: Time of a run beside its training, in times of a whole training.
        late_looks: Number of times that further candidates may enter; ``run_race`` sets it.
    """

    rungs: Sequence[Rung] = (*FIRST_RUNGS, *(Rung(1.0, seeds) for seeds in (5, 10, 20, 30)))
    level: float = 0.95
    validation_ratio: float = 0.0
    test_ratio: float = 0.0
    fresh: bool = False
    processes: int = 1
    fixed: float = 0.0
    late_looks: int = 0

    def length(self, fraction: float) -> float:
        """Time of a run with a share of the training, in times of a whole training."""
        return self.fixed + fraction

    def shorter(self) -> RacePlan:
        """The plan with half of the training in every rung.

        Returns:
            The plan, whose answer is not final: encodings may overtake each other later.
        """
        numbers = dict.fromkeys(rung.seeds for rung in self.rungs)
        return replace(self, rungs=tuple(Rung(LEAST_FRACTION, seeds) for seeds in numbers))

    @property
    def choosing_seeds(self) -> int:
        """Number of seeds that choose; all of them if there is a held-out part."""
        return self.rungs[0].seeds if self.fresh else max(rung.seeds for rung in self.rungs)

    def testing(self, seeds: Iterable[int]) -> list[int]:
        """Seeds that count on the test part.

        Args:
            seeds: Seeds of a rung.

        Returns:
            Those that have chosen nothing if there is no held-out part; otherwise all of them.
        """
        return [seed for seed in seeds if not self.fresh or seed >= self.choosing_seeds]


FRESH_RUNGS = (*FIRST_RUNGS, Rung(1.0, 6))
"""Rungs for data without a held-out part: seeds 3 to 5 of the last one have chosen nothing."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """Comparison of the candidates after a rung.

    Attributes:
        rung: The rung, with the number of seeds that all candidates have.
        scores: Scores of the candidates that were compared.
        leader: Candidate with the largest mean score on the validation part.
        gaps: Candidate to its difference from the leader on the validation part.
        dropped: Candidates that were dropped.
        joined: Candidates that entered late and are compared for the first time after this training.
        judged: Candidates that could be dropped here; None for all.
    """

    rung: Rung
    scores: Scores
    leader: str
    gaps: Mapping[str, Estimate]
    dropped: tuple[str, ...]
    joined: tuple[str, ...] = ()
    judged: tuple[str, ...] | None = None

    def means(self) -> dict[str, float]:
        """Mean score of each candidate on the validation part."""
        return {name: mean([each.validation for each in seeds.values()]) for name, seeds in self.scores.items()}

    def kept(self) -> list[str]:
        """Candidates that were not dropped."""
        return [name for name in self.scores if name not in self.dropped]

    @property
    def worse(self) -> list[str]:
        """Candidates that are shown to be worse than the leader, could be dropped, and were not."""
        worse = [name for name, gap in self.gaps.items() if gap.below(0) and name not in self.dropped]
        return [name for name in worse if self.judged is None or name in self.judged]

    def seconds(self, name: str) -> float:
        """Mean duration of a run of a candidate."""
        return mean([score.seconds for score in self.scores[name].values()])


@dataclass(frozen=True, kw_only=True)
class Race:
    """A finished race.

    Attributes:
        looks: Comparisons, those with short trainings first. The answer is from the last one.
        survivors: Candidates of the last comparison.
        verdict: The answer, from the test part.
        stopped: Reason for the end: "time", or "" after the last rung.
        next_seconds: Predicted time of the rung for which no time was left; 0 without one.
        left: Time that was left then.
        behind: Candidates that entered late and were not shown to be worse, without time for the training of the last
            comparison.
        waiting_seconds: Predicted time of the first rung of candidates that were not tried.
    """

    looks: Sequence[Look]
    survivors: Sequence[str]
    verdict: Verdict
    stopped: str = ""
    next_seconds: float = 0.0
    left: float = 0.0
    behind: tuple[str, ...] = ()
    waiting_seconds: float = 0.0

    @property
    def tried(self) -> tuple[str, ...]:
        """Candidates that were compared with others at least once, in the order of their first comparison."""
        return tuple(dict.fromkeys(name for look in self.looks for name in look.scores))


def run_race(
    candidates: Sequence[str],
    train: Trainer,
    plan: RacePlan,
    remaining: Callable[[], float] = lambda: math.inf,
    waiting: Sequence[str] = (),
    failed: Callable[[], Collection[str]] = tuple,
) -> Race | None:
    """Run a race.

    Args:
        candidates: Names of at least two candidates.
        train: Trains candidates.
        plan: Rungs and levels.
        remaining: Returns the seconds that remain for training.
        waiting: Further candidates, which enter as far as the time allows.
        failed: Returns the candidates of which a training has failed. They leave the race.

    Returns:
        The race; None if the time did not suffice for two seeds of the first rung.
    """
    looks: list[Look] = []
    plan = replace(plan, late_looks=LATE_LOOKS if waiting else 0)
    late = _Late(train, plan, remaining, list(waiting), failed)
    racing, rung, stopped, next_seconds, left = list(candidates), plan.rungs[0], "", 0.0, 0.0
    while True:
        scores = train(racing, rung)
        if (candidates_left := _without(failed(), racing, looks)) != racing:
            racing = candidates_left
            scores = train(racing, rung)  # of one that was dropped and comes back; the others are stored
        look = _compared(racing, scores, rung, plan)
        if look is None or (looks and look.rung == looks[-1].rung):  # the time ended before a further seed of all
            stopped = "time"
            break
        looks.append(look)
        if look.rung.seeds < rung.seeds:
            stopped = "time"
            break
        late.enter(looks)
        look, left = looks[-1], remaining()
        racing = look.kept()
        following = _next_rung(look, racing, plan, left)
        if following is None:
            wanted = _wanted(look, racing, plan)
            stopped = "time" if wanted else ""
            next_seconds = _seconds(look, racing, wanted[0], plan) if wanted else 0.0
            break
        rung = following
    if not looks:
        return None
    survivors = looks[-1].kept()
    verdict = late.left_open(_verdict(looks, survivors, plan), looks[-1])
    return Race(
        looks=looks, survivors=survivors, verdict=verdict, stopped=stopped,
        next_seconds=next_seconds, left=left, behind=tuple(late.behind),
        waiting_seconds=late.waiting_seconds(looks[-1]),
    )  # fmt: skip


class _Late:
    """Candidates that enter a race late.

    Args:
        train: Trains candidates.
        plan: Rungs and levels.
        remaining: Returns the seconds that remain for training.
        waiting: Candidates that have not been trained.
        failed: Returns the candidates of which a training has failed.

    Attributes:
        waiting: Candidates that have not been trained.
        behind: Candidates that were not shown to be worse in the first rung, without time for the present one.
        looks_left: Number of times that candidates may still enter.
    """

    def __init__(
        self,
        train: Trainer,
        plan: RacePlan,
        remaining: Callable[[], float],
        waiting: list[str],
        failed: Callable[[], Collection[str]],
    ) -> None:
        self.train, self.plan, self.remaining, self.failed = train, plan, remaining, failed
        self.waiting, self.behind, self.looks_left = waiting, list[str](), plan.late_looks

    def enter(self, looks: list[Look]) -> None:
        """Compare waiting candidates with those of the last look, as often as the time allows; adds their looks."""
        while self.waiting and self.looks_left:
            names = self._affordable(looks[-1])
            if not names:
                return
            self.looks_left -= 1
            self._enter(looks, names)

    def _enter(self, looks: list[Look], names: list[str]) -> None:
        present, first = looks[-1], self.plan.rungs[0]
        racing = present.kept()
        scores = self.train([*racing, *names], first)
        trained = [name for name in names if len(scores.get(name, {})) == first.seeds]
        whole = all(len(scores.get(name, {})) == first.seeds for name in racing)
        self.waiting = [name for name in self.waiting if name not in trained and name not in self.failed()]
        if not trained or not whole:
            self.looks_left = 0
            return
        # Later trainings know more of the others than this rung does, so it drops only those that enter.
        droppable = None if present.rung == first else trained
        known = {name: each for look in looks if look.rung == first for name, each in look.scores.items()}
        early = _compared([*racing, *trained], {**known, **scores}, first, self.plan, droppable, trained)
        assert early is not None, "all have the seeds of the first rung"
        if present.rung == first:
            looks.append(early)
            return
        looks.insert(next(at for at, look in enumerate(looks) if look.rung > first), early)
        kept = [name for name in trained if name not in early.dropped]
        if kept and self._seconds(early, kept, present.rung) <= self.remaining():
            scores = self.train([*racing, *kept], present.rung)
            joined = [name for name in kept if len(scores.get(name, {})) >= present.rung.seeds]
            look = _compared([*racing, *joined], scores, present.rung, self.plan, None, joined) if joined else None
            if look is not None and look.rung == present.rung:
                looks.append(look)
                kept = [name for name in kept if name not in joined]
        self.behind += [name for name in kept if name not in self.failed()]

    def left_open(self, verdict: Verdict, look: Look) -> Verdict:
        """The answer, which is not decided as long as candidates are behind."""
        if not self.behind:
            return verdict
        more = max(verdict.seconds_more or 0.0, self._seconds(look, [look.leader] * len(self.behind), look.rung))
        others = (*verdict.others, *self.behind)
        return replace(verdict, kind="undecided", others=others, seconds_more=more)

    def waiting_seconds(self, look: Look) -> float:
        """Predicted duration of the first rung of the candidates that still wait; 0 without one."""
        racing = look.kept()
        names = [racing[at % len(racing)] for at in range(len(self.waiting))]  # they cost as much as the others
        return self._seconds(look, names, self.plan.rungs[0]) if names else 0.0

    def _affordable(self, look: Look) -> list[str]:
        """Waiting candidates that the time allows, with what an answer needs of the others."""
        left, first = self.remaining(), self.plan.rungs[0]
        racing, follow = look.kept(), look.rung.fraction < 1 or self.plan.fresh
        wanted = _wanted(look, racing, self.plan)[:1] if follow else []
        needed = wanted if wanted and _seconds(look, racing, wanted[0], self.plan) <= left else []

        def seconds(number: int, goes_on: bool) -> float:
            names = [racing[at % len(racing)] for at in range(number)]  # they cost as much as the others
            total = self._seconds(look, names, first)
            if goes_on and look.rung != first:
                total += self._seconds(look, names, look.rung)
            return total + sum(_seconds(look, [*racing, *names * goes_on], rung, self.plan) for rung in needed)

        number = len(self.waiting)
        fitting = (n for goes_on in (True, False) for n in range(number, 0, -1) if seconds(n, goes_on) <= left)
        if look.rung == first and needed:  # what enters here is part of the next rung
            fitting = (n for n in range(number, 0, -1) if seconds(n, True) <= left)
        return self.waiting[: next(fitting, 0)]

    def _seconds(self, look: Look, names: Sequence[str], rung: Rung) -> float:
        """Predicted duration of a rung of new candidates."""
        factor = self.plan.length(rung.fraction) / self.plan.length(look.rung.fraction)
        total = sum(factor * rung.seeds * look.seconds(name) for name in names)
        runs = min(self.plan.processes, rung.seeds * len(names))
        return START_SECONDS + SAFETY * max(total / runs, factor * max(map(look.seconds, names)))


def _compared(
    racing: Sequence[str],
    scores: Scores,
    rung: Rung,
    plan: RacePlan,
    droppable: Sequence[str] | None = None,
    joined: Sequence[str] = (),
) -> Look | None:
    """Compare candidates after a rung; None if they share fewer than two seeds. All may be dropped by default.

    Scores of further candidates, which were dropped before, count for the variance alone.
    """
    held = {name: scores.get(name, {}) for name in racing}
    seeds = common_seeds({name: dict.fromkeys(by_seed, 0.0) for name, by_seed in held.items()})
    if len(seeds) < 2:
        return None
    shared = {name: {seed: by_seed[seed] for seed in seeds} for name, by_seed in held.items()}
    chosen_by = [seed for seed in seeds if seed < plan.choosing_seeds]
    further = {name: each for name, each in scores.items() if name not in held and each.keys() >= set(seeds)}
    validation = {
        name: {seed: each[seed].validation for seed in chosen_by} for name, each in {**shared, **further}.items()
    }
    leader = max(racing, key=lambda name: mean(list(validation[name].values())))
    compared = (len(plan.rungs) + 2 * plan.late_looks) * max(1, len(racing) - 1)
    all_gaps = paired_gaps(validation, leader, ratio=plan.validation_ratio, level=1 - (1 - plan.level) / compared)
    gaps = {name: gap for name, gap in all_gaps.items() if name in held}
    worse = [name for name, gap in gaps.items() if gap.below(0) and _stays_worse(shared, name, leader, gap.mean)]
    worse = [name for name in worse if droppable is None or name in droppable]
    worse.sort(key=lambda name: gaps[name].mean)
    early = rung.fraction < LEAST_FRACTION
    if early or (plan.fresh and len(seeds) > plan.choosing_seeds):
        droppable = ()
    most = 0 if droppable == () else len(racing) - FEWEST
    return Look(
        rung=Rung(rung.fraction, len(seeds)), scores=shared, leader=leader, gaps=gaps, dropped=tuple(worse[:most]),
        joined=tuple(joined), judged=None if droppable is None else tuple(droppable),
    )  # fmt: skip


def _without(failed: Collection[str], racing: Sequence[str], looks: Sequence[Look]) -> list[str]:
    """The candidates without those that have failed. The best dropped ones come back if fewer than two are left."""
    left = [name for name in racing if name not in failed]
    for look in reversed(looks):
        means = look.means()
        dropped = sorted((name for name in look.dropped if name not in failed), key=lambda name: -means[name])
        left += dropped[: max(0, FEWEST - len(left))]
    return left if len(left) >= FEWEST else list(racing)


def _stays_worse(scores: Scores, name: str, leader: str, gap: float) -> bool:
    """True if a difference keeps its sign after it is extended by its last change."""
    earlier = mean([each.earlier - scores[leader][seed].earlier for seed, each in scores[name].items()])
    return 2 * gap - earlier < 0


def _is_decided(look: Look, racing: Sequence[str], plan: RacePlan) -> bool:
    """True if only two candidates are left, and the validation part tells them apart with whole trainings."""
    return (
        look.rung.fraction == plan.rungs[-1].fraction
        and look.rung.seeds >= MORE_SEEDS[0]
        and len(racing) == FEWEST
        and all(look.gaps[name].below(0) for name in racing if name != look.leader)
    )


def _next_rung(look: Look, racing: Sequence[str], plan: RacePlan, seconds: float) -> Rung | None:
    """The next rung that the remaining time allows; None for the end."""
    wanted = _wanted(look, racing, plan)
    return next((rung for rung in wanted if _seconds(look, racing, rung, plan) <= seconds), None)


def _wanted(look: Look, racing: Sequence[str], plan: RacePlan) -> list[Rung]:
    """Rungs that may follow, the most wanted first; none if the race has ended or is decided."""
    present = look.rung
    if _is_decided(look, racing, plan):
        return []
    later = [rung for rung in plan.rungs if rung > present and rung.seeds >= present.seeds]
    last = plan.rungs[-1].seeds
    more = [present._replace(seeds=seeds) for seeds in (*MORE_SEEDS, last) if present.seeds < seeds <= last]
    if plan.fresh:  # the seeds that test come last, and nothing may prevent them
        more = [present._replace(seeds=last)] if present.seeds < last else []
    return [*later[:1], *more]


def _seconds(look: Look, racing: Sequence[str], rung: Rung, plan: RacePlan) -> float:
    """Predicted duration of a rung; for data without a held-out part with that of the seeds that test."""
    factor = plan.length(rung.fraction) / plan.length(look.rung.fraction)
    seeds = rung.seeds if factor > 1 else rung.seeds - look.rung.seeds
    if plan.fresh:
        seeds += plan.rungs[-1].seeds - rung.seeds
    each = [look.seconds(name) for name in racing]
    total = factor * seeds * sum(each)
    return START_SECONDS + SAFETY * max(total / min(plan.processes, seeds * len(racing)), factor * max(each))


def _verdict(looks: Sequence[Look], survivors: Sequence[str], plan: RacePlan) -> Verdict:
    """The answer from the test part, after the choice by the validation part."""
    last = looks[-1]
    seeds = common_seeds({name: dict.fromkeys(each, 0.0) for name, each in last.scores.items()})
    choosing = [seed for seed in seeds if seed < plan.choosing_seeds]
    testing = plan.testing(seeds)
    chosen = max(survivors, key=lambda name: mean([last.scores[name][seed].validation for seed in choosing]))
    test = {name: {seed: last.scores[name][seed].test for seed in testing} for name in survivors}
    last_test = {name: [each.test for each in seeds.values()] for look in looks for name, seeds in look.scores.items()}
    worst = min(mean(values) for values in last_test.values())
    length = plan.length(1.0) / plan.length(last.rung.fraction)
    seconds = sum(mean([each.seconds for each in last.scores[name].values()]) for name in survivors)
    return verdict_of(
        test,
        chosen,
        worst=worst,
        ratio=plan.test_ratio,
        level=plan.level,
        seconds_of_a_seed=SAFETY * length * seconds / plan.processes,
        whole=last.rung.fraction == 1,
        fresh=plan.fresh,
    )
