"""Training of candidates: requests to the ordinary runner, read back from the ordinary store."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from posenc.workbench import runner
from posenc.workbench.advice.kinds import Candidate, Kind, Metric
from posenc.workbench.advice.race import Rung, Score
from posenc.workbench.executors.engines import EngineExecutor
from posenc.workbench.executors.stop_requests import TimeIsOver
from posenc.workbench.progress import Event
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import Stored
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared.changes import preset_label
from posenc.workbench.studies.shared.declarations import half_budget_of
from posenc.workbench.studies.shared.own_data import with_half_budget
from posenc.workbench.studies.shared.study import Study

MOST_RESERVE = 0.2
"""Largest part of a budget that is left for the page."""


class Deadline:
    """Watcher of runs that ends them when the budget is spent.

    Args:
        seconds: The budget, counted from now.
        reserve: Part of it that is left for the page.

    Attributes:
        names: Identity of a run to the name of its candidate, which says its settings.
        errors: Identity of a run that failed to its error.
    """

    def __init__(self, seconds: float, reserve: float) -> None:
        self.end, self.seconds, self.reserve = time.monotonic() + seconds - reserve, seconds, reserve
        self.kept, self.names, self.errors = 0.0, dict[str, str](), dict[str, str]()

    def slow_down(self, factor: float) -> None:
        """Leave more time for the page on a busy machine, at most a fifth of the budget.

        Args:
            factor: Time of a computation over its time on free processors.
        """
        reserve = max(self.reserve, min(self.reserve * factor, MOST_RESERVE * self.seconds))
        self.end -= reserve - self.reserve
        self.reserve = reserve

    def keep(self, seconds: float, budget: float) -> None:
        """Keep time for baselines after the race, at most a tenth of the budget.

        Args:
            seconds: The time.
            budget: The whole budget.
        """
        self.kept = min(seconds, budget / 10)

    def release(self) -> None:
        """Give the kept time back, for the baselines."""
        self.kept = 0.0

    def remaining(self) -> float:
        """Seconds that remain for training."""
        return self.end - self.kept - time.monotonic()

    def shown(self, spec: RunSpec) -> RunSpec:
        """Run under the labels that the display shows.

        Args:
            spec: The run.

        Returns:
            The run, with the same identity.
        """
        labels = {
            "preset": spec.preset,
            "setting": spec.condition,
            "scheme": self.names.get(spec.identity, spec.variant),
        }
        return spec.labeled(labels)

    def begin(self, specs: Sequence[RunSpec], costs: Mapping[str, float]) -> str:
        """Start to watch runs.

        Args:
            specs: The runs.
            costs: Not used.

        Returns:
            A line on the time that remains.
        """
        return f"The budget has {max(0.0, self.remaining()):.0f} s left for them."

    def emit(self, event: Event) -> None:
        """Keep the error of a run that failed, and stop the runs if the budget is spent.

        Args:
            event: An event of a run.

        Raises:
            TimeIsOver: The budget is spent.
        """
        if event.kind == "failed":
            self.errors[event.key] = event.message
        if self.remaining() < 0:
            raise TimeIsOver


class StudyTrainer:
    """Trains candidates of a study on the user's data.

    Args:
        study: The study.
        kind: The kind of the data.
        request: Preset, source and options of reading.
        question: Question of the kind.
        candidates: Candidates by name.
    """

    def __init__(
        self, study: Study, kind: Kind, request: Request, question: str, candidates: Mapping[str, Candidate]
    ) -> None:
        self.study, self.kind, self.request, self.question = study, kind, request, question
        self.candidates, self.condition = candidates, kind.condition(request, question)
        self.executor: runner.Executor | None = None
        self.deadline: Deadline | None = None
        self.failed: dict[str, str] = {}  # candidate to the error of a training
        self._settings: dict[tuple[str, float], tuple[dict[str, Any], str, str]] = {}

    def settings(self, store: Store, name: str, fraction: float = 1.0) -> dict[str, Any] | None:
        """Settings of a run of a candidate; the data are written into the store.

        Args:
            store: The store.
            name: Name of the candidate.
            fraction: Share of the training, 1 or 0.5.

        Returns:
            The settings; None for a candidate that cannot represent the data.

        Raises:
            ValueError: The data cannot be read, or the candidate cannot be built.
        """
        if (name, fraction) in self._settings:
            return self._settings[name, fraction][0]
        candidate, changes = self.candidates[name], {**self.request.changes, **self.candidates[name].changes}
        made, label = self._made(store, candidate, changes), self.condition
        if made is not None and fraction < 1:
            if self.kind.half:
                changes[self.kind.half] = fraction * made["training"]["seconds"]
                made = self._made(store, candidate, changes)
            else:
                made, label = with_half_budget(made), half_budget_of(label)
        if made is not None:
            request = replace(self.request, changes=changes)
            self._settings[name, fraction] = made, label, preset_label(self.study.presets, request)
        return made

    def _made(self, store: Store, candidate: Candidate, changes: dict[str, Any]) -> dict[str, Any] | None:
        request = replace(self.request, changes=changes)
        return self.study.run_settings(request, store, self.condition, candidate.label)

    def specs(self, store: Store, name: str, rung: Rung) -> list[RunSpec]:
        """Runs of a candidate in a rung.

        Args:
            store: The store.
            name: Name of the candidate.
            rung: Share of the training and number of seeds.

        Returns:
            One run per seed.
        """
        self.settings(store, name, rung.fraction)
        settings, condition, preset = self._settings[name, rung.fraction]
        return [
            self.study.procedure.spec(
                study=self.study.name,
                preset=preset,
                condition=condition,
                variant=self.candidates[name].label,
                seed=seed,
                settings=settings,
            )
            for seed in range(rung.seeds)
        ]

    def train(self, store: Store, candidates: Sequence[str], rung: Rung) -> dict[str, dict[int, Score]]:
        """Train candidates until the budget is spent, and read the scores of all finished runs.

        Args:
            store: The store.
            candidates: Names of the candidates.
            rung: Share of the training and number of seeds.

        Returns:
            Candidate -> seed -> scores.
        """
        by_name = {name: self.specs(store, name, rung) for name in candidates}
        if self.deadline:
            self.deadline.names |= {spec.identity: name for name, specs in by_name.items() for spec in specs}
        by_seed = [spec for some in zip(*by_name.values(), strict=True) for spec in some]
        errors = self.execute(store, by_seed)
        for name, specs in by_name.items():
            sentence = next((errors[spec.identity] for spec in specs if spec.identity in errors), "")
            self.failed |= {name: sentence} if sentence else {}
        return {
            name: {spec.seed: self.score(store.read(spec.identity)) for spec in specs if store.finished(spec.identity)}
            for name, specs in by_name.items()
        }

    def execute(self, store: Store, specs: Sequence[RunSpec]) -> dict[str, str]:
        """Execute runs in their order until the budget is spent.

        Args:
            store: The store.
            specs: The runs.

        Returns:
            Identity of each run that failed to its error.
        """
        if isinstance(self.executor, EngineExecutor) and self.deadline:  # While runs wait there, no event comes.
            self.executor.ends_at = time.monotonic() + max(0.0, self.deadline.remaining())
        try:
            report = runner.run(specs, store, self.executor, live=self.deadline)
            return {spec.identity: sentence for spec, sentence in report.failed}
        except TimeIsOver:
            kept = self.deadline.kept if self.deadline else 0.0
            spent = "The budget is spent" + (f", but for {kept:.0f} s that are kept for baselines" if kept else "")
            print(f"{spent}. What is finished is stored, and the same command goes on.", flush=True)
            return dict(self.deadline.errors) if self.deadline else {}

    def metric(self, stored: Stored) -> Metric:
        """The score of a run: the first one of the kind that it has."""
        return next((each for each in self.kind.metrics if each.test in stored.metrics), self.kind.metrics[0])

    def score(self, stored: Stored) -> Score:
        """Scores of a finished run, larger is better.

        Args:
            stored: The run.

        Returns:
            The scores. Without a held-out part the score on the test part is that of the validation too.
        """
        metric = self.metric(stored)
        test = metric.sign * stored.metrics[metric.test]
        points = [row for row in stored.curves if row["metric"] == metric.validation]
        curve = {row["epoch"]: metric.sign * row["value"] for row in points}
        if not curve:
            return Score(test, test, test, float(stored.timing["seconds"]))
        half = max(curve) / 2
        earlier = curve[min(curve, key=lambda epoch: abs(epoch - half))]
        chosen = int(stored.timing.get("chosen_step", max(curve)))
        validation = curve.get(chosen, curve[max(curve)]) if self.kind.held_out else test
        return Score(validation, earlier, test, float(stored.timing["seconds"]))
