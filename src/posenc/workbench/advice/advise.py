"""Advice on the encoding for a user's data: recognize the data, race candidates within a time, and write a page.

from posenc.workbench import advise
advice = advise("houses.csv", target="price", budget="5m")
print(advice)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from posenc.measure.statistics import mean
from posenc.workbench import request_checks, runner, studies
from posenc.workbench.advice import budget as budgets
from posenc.workbench.advice.code import TableColumns, load_code, runs, sklearn_code, torch_code
from posenc.workbench.advice.controls import ControlGap, control_gaps, control_scores
from posenc.workbench.advice.kinds import Candidate, Kind
from posenc.workbench.advice.page import PageParts, write_advice
from posenc.workbench.advice.race import FRESH_RUNGS, START_SECONDS, Race, RacePlan, Rung, Score, run_race
from posenc.workbench.advice.recognition import Fitting, Recognized, by_name, fitting, recognize
from posenc.workbench.advice.sentences import (
    VALIDATION,
    Scale,
    baseline_ahead,
    baseline_gaps,
    control_sentence,
    failed_sentences,
    late_sentences,
    recommendation,
    reference_sentences,
    stop_sentence,
)
from posenc.workbench.advice.trainer import Deadline, StudyTrainer
from posenc.workbench.advice.verdict import Verdict
from posenc.workbench.executors.engines import EngineExecutor, EngineRequest
from posenc.workbench.executors.processes import Local
from posenc.workbench.processor_share import available_cores
from posenc.workbench.progress import format_duration
from posenc.workbench.provenance import cores
from posenc.workbench.report.number_format import count
from posenc.workbench.request_execution import engine_of, executor_of
from posenc.workbench.request_options import PAGE_PACKAGES
from posenc.workbench.storage.provisional_store import provisional_store
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.places.stored_places import load_table
from posenc.workbench.studies.shared import page_file, page_records

TIMED = 3
"""Candidates of which a few steps are timed before the start, beside the first one."""
ENGINE_SECONDS = 60.0
"""Time in which the tasks or jobs of an engine start, over all steps of a race (docs/scaling.md)."""
UNTRIED = "the budget had no time for it; a larger one tries it"
"""Reason of a candidate that fits the data and was not in the race."""
REFERENCE_SEEDS = 5
"""Most seeds of a baseline: one for each fold of a table."""
SLACK = 2.0
"""Factor on the predicted time of baselines, whose cost is a constant of the study."""
COMPACT_TIMES = "are read as dates: year, month, day."
"""End of the sentence of a table whose times are dates of eight digits."""
_NOTHING = Score(-math.inf, -math.inf, -math.inf, 0.0)
"""Score of a run that has not finished."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Advice on the encoding for a user's data. ``str(advice)`` is the answer in sentences.

    Attributes:
        recommended: Name of the recommended candidate, such as "fourier (detail 4)"; the text "none" is the control
            without positions. None (no text) if ``kind`` is "undecided": nothing is recommended then.
        ahead: Name of the best candidate on the validation part, recommended or not.
        kind: "best" for one candidate, "equal" for several without a difference that matters, "undecided".
        equal_to: Candidates without a difference from the recommended one that matters, if ``kind`` is "equal".
        sentences: The answer.
        code: Code that uses ``ahead``, recommended or not; its first line says which. "" if that is no encoding.
        race: The race with all scores.
        path: The page, an HTML file.
        study: Name of the study whose runs are in the store.

    Example:
        >>> from posenc.workbench import Advice
        >>> "sentences" in Advice.__dataclass_fields__
        True
    """

    recommended: str | None
    ahead: str
    kind: str
    equal_to: tuple[str, ...]
    sentences: tuple[str, ...]
    code: str
    race: Race
    path: Path
    study: str

    def __str__(self) -> str:
        return "\n".join(self.sentences)


def advise(
    source: str | Path,
    *,
    target: str | None = None,
    budget: str = "10m",
    question: str | None = None,
    study: str | None = None,
    reading: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
    out: str | Path = "runs",
    jobs: int | None = None,
    device: str = "cpu",
    executor: str | EngineRequest | runner.Executor = "local",
) -> Advice:
    """Compare encodings on your data within a time, and recommend one.

    All candidates are trained a little. Those that are shown to be worse are dropped, and the others are trained on.
    The recommendation comes from the validation part, and its comparison from a test part that no choice has seen. Runs
    are kept in the store: the same call continues after an interruption, and a larger budget adds to what is there.

    Args:
        source: Your file or folder.
        target: Column to predict, for a table.
        budget: Time of the clock, such as "10m", "90s" or "1h".
        question: For a table of places: "between" known places or at "new" ones. Default: the first question of the
            kind of data.
        study: Name of the study that reads the data. Default: found by names and headers.
        reading: Further options of the reader by name, as those of ``run``: {"coordinates": "x,y"}. Default: none.
        changes: Settings of the quick preset of the study with other values. Default: none.
        out: The store.
        jobs: Trainings at the same time. Default: one per core.
        device: PyTorch device, such as "cuda".
        executor: Engine of the trainings, as that of ``run``: "local", "ray", "slurm=PARTITION" or an executor. At the
            end of the budget its tasks and jobs are cancelled.

    Returns:
        The advice with its page.

    Raises:
        ValueError: The data cannot be read, are of several kinds, or the budget is too small for two candidates. Then
            nothing is written.

    Example:
        >>> from posenc.workbench import advise
        >>> try:
        ...     advise("houses.csv", budget="soon")
        ... except ValueError as error:
        ...     print(error)
        a budget is a time above 0, such as 10m, 90s or 1h; got 'soon'. Use --budget 10m.
    """
    seconds = budgets.budget_seconds(budget)
    deadline = Deadline(seconds, budgets.reserve(seconds))
    if jobs is not None and jobs < 1:
        raise ValueError(f"At least one training at a time is needed; got jobs={jobs}. Leave it out for one per core.")
    request_checks.refuse_missing_packages(*PAGE_PACKAGES)
    request_checks.refuse_device_name(device)
    request_checks.refuse_unknown_reading(reading or {})
    engine, options = engine_of(executor, device), {"target": target, **(reading or {})}
    found = recognize(Path(source), study, target, options)
    trainer = _trainer(found, question, options, changes or {}, device)
    print(found.sentence, flush=True)
    processes = jobs or (cores() if device == "cpu" else 1)
    trainer.executor = executor_of(trainer.study, engine, jobs) or runner.pick(device, processes)
    trainer.deadline = deadline
    with provisional_store(Path(out)) as proposed:
        fit = fitting(trainer, proposed.store)
        plan = _plan(found.kind, fit.settings, processes)
        deadline.keep(_reference_seconds(trainer, proposed.store, processes), seconds)
        chosen, plan = _fitted(trainer, proposed.store, fit, plan, (seconds, deadline))
        _announce(found.kind, trainer, fit, chosen, question)
        if isinstance(trainer.executor, EngineExecutor):  # before anything is queued
            trainer.executor.prepare(trainer.specs(proposed.store, chosen[0], plan.rungs[0]), proposed.store.root)
        first = trainer.specs(proposed.store, chosen[0], plan.rungs[0])
        for line in (*page_records.sentences(proposed.store, first), *trainer.study.remarks(proposed.store, first)):
            print(line)
        store = proposed.accept()
    waiting = [name for name in fit.candidates if name not in chosen]
    race = run_race(chosen, partial(trainer.train, store), plan, deadline.remaining, waiting, lambda: trainer.failed)
    if race is None:
        raise ValueError(_too_little(trainer, budget))
    deadline.release()
    references = _references(trainer, store, race, deadline)
    controls = control_scores(trainer, store, race, plan, fit.candidates)
    reasons = {name: candidate.control for name, candidate in trainer.candidates.items()}
    gaps = control_gaps(race, plan, reasons, controls)
    return _answered(trainer, store, race, plan, fit, references, gaps, budget)


def _too_little(trainer: StudyTrainer, budget: str) -> str:
    failed = "".join(f" {name} failed: {sentence}" for name, sentence in trainer.failed.items())
    return (
        f"the budget of {budget} ended before two seeds of each candidate were trained. What is finished is stored: "
        f"the same command with a larger budget goes on, such as --budget 10m.{failed}"
    )


def _trainer(
    found: Recognized, question: str | None, options: Mapping[str, Any], changes: Mapping[str, Any], device: str
) -> StudyTrainer:
    """Trainer of the candidates of a kind; ValueError for an unknown question or option."""
    kind = found.kind
    if question is not None and question not in kind.questions:
        known = " or ".join(kind.questions) if "" not in kind.questions else "none"
        raise ValueError(f"the questions on {kind.noun} are {known}; got {question!r}. Leave it out for the usual one.")
    definition = studies.find(kind.study)
    reading = request_checks.reading_options(kind.study, found.path, options)
    request = Request(preset="quick", source=found.path, reading=reading, changes=dict(changes), device=device)
    return StudyTrainer(definition, kind, request, question or next(iter(kind.questions)), by_name(kind, question))


def _plan(kind: Kind, settings: Mapping[str, Any], processes: int) -> RacePlan:
    """Rungs, and how much the seeds have in common."""
    if not kind.held_out:
        return RacePlan(rungs=FRESH_RUNGS, fresh=True, processes=processes)
    items, by_seed = settings.get("items", {}), settings.get("split") == "seed"
    train, validation, test = (float(items.get(part, 0)) for part in ("train", "validation", "test"))
    if not by_seed or not train:
        return RacePlan(processes=processes)
    return RacePlan(validation_ratio=validation / train, test_ratio=test / (train + validation), processes=processes)


def _fitted(
    trainer: StudyTrainer, store: Store, fit: Fitting, plan: RacePlan, time: tuple[float, Deadline]
) -> tuple[tuple[str, ...], RacePlan]:
    """Candidates that the budget has time for, and their plan; ValueError for less than two.

    A few candidates always start, even if only half of the usual training fits. So do those with stored runs.
    """
    budget, deadline = time
    each, fixed = _cost(trainer, store, fit.candidates)
    start = ENGINE_SECONDS if isinstance(trainer.executor, EngineExecutor) else START_SECONDS
    if isinstance(trainer.executor, Local):
        load = max(1.0, min(plan.processes, cores()) / available_cores(plan.processes))
        deadline.slow_down(load)
        each *= load
    plan = replace(plan, fixed=fixed)
    begun, left = _begun(trainer, store, fit, plan), deadline.remaining() - start
    most = max(budgets.starting(len(fit.candidates), each, plan, left), begun)
    least = budgets.least_seconds(each, plan)
    if left <= 0:
        raise ValueError(
            f"a budget of {budgets.budget_words(budget)} ends before the race can start. Use --budget "
            f"{max(1, math.ceil((budget - left + 2 * least) / 60))}m."
        )
    if len(fit.candidates) < 2 or (least > left and not begun):
        raise ValueError(
            f"a budget of {budgets.budget_words(budget)} is too small to train two candidates, each with "
            f"{plan.rungs[0].seeds} seeds. Use --budget {max(1, math.ceil((budget - left + 2 * least) / 60))}m."
        )
    chosen = _with_an_encoding(trainer, fit.candidates, most)
    predicted = len(chosen) * budgets.race_seconds(each, plan)
    part = "" if predicted <= left else ", probably with half of the usual training, after which nothing is recommended"
    print(
        f"{len(chosen)} of {count(len(fit.candidates), 'candidate')} fit into {budgets.budget_words(budget)}{part}: "
        f"about {format_duration(min(predicted, left))}, less if many are dropped early.",
        flush=True,
    )
    return chosen, plan


def _with_an_encoding(trainer: StudyTrainer, candidates: Sequence[str], most: int) -> tuple[str, ...]:
    """The first candidates; if all are controls, the first encoding takes the place of the last one."""
    chosen = tuple(candidates[:most])
    encodings = [name for name in candidates if not trainer.candidates[name].control]
    return chosen if not encodings or set(encodings) & set(chosen) else (*chosen[:-1], encodings[0])


def _cost(trainer: StudyTrainer, store: Store, candidates: Sequence[str]) -> tuple[float, float]:
    """Seconds of a run on a free core, and its time beside the training in times of a whole training."""

    def seconds(name: str, fraction: float) -> float:
        return trainer.study.cost.seconds(trainer.specs(store, name, Rung(fraction, 1))[0], store)

    named = candidates[: TIMED + 1]
    whole = [seconds(name, 1.0) for name in named]
    training = 2 * (whole[-1] - seconds(named[-1], 0.5))
    return mean(whole), max(0.0, whole[-1] / training - 1) if training > 0 else 0.0


def _begun(trainer: StudyTrainer, store: Store, fit: Fitting, plan: RacePlan) -> int:
    """Number of candidates, in their order, up to the last one with a finished run of the first rung."""
    runs_of = [trainer.specs(store, name, plan.rungs[0]) for name in fit.candidates]
    done = [any(store.finished(spec.identity) for spec in some) for some in runs_of]
    return max((place + 1 for place, finished in enumerate(done) if finished), default=0)


def _announce(kind: Kind, trainer: StudyTrainer, fit: Fitting, chosen: Sequence[str], question: str | None) -> None:
    """Print the question, the candidates with their reasons, and what is left out."""
    if len(kind.questions) > 1:
        asked = question or next(iter(kind.questions))
        rest = {name: phrase for name, phrase in kind.questions.items() if name != asked}
        others = " or ".join(f"--question {name} ({phrase})" for name, phrase in rest.items())
        print(f"Question: the best {kind.questions[asked]}. The other one: {others}.")
    controls = [f"{name} ({trainer.candidates[name].control})" for name in chosen if trainer.candidates[name].control]
    print(f"Controls: {', '.join(controls)}.")
    print(f"Encodings: {', '.join(name for name in chosen if not trainer.candidates[name].control)}.")
    if later := [name for name in fit.candidates if name not in chosen]:
        print(f"No time for: {', '.join(later)}.")
    for reason in dict.fromkeys(fit.left_out.values()):
        names = ", ".join(name for name in fit.left_out if fit.left_out[name] == reason)
        print(f"Left out: {names}, because {reason}")


def _reference_seconds(trainer: StudyTrainer, store: Store, processes: int) -> float:
    """Predicted time of the baselines that are scored beside the answer."""
    total = 0.0
    for label in trainer.kind.references:
        trainer.candidates = {**trainer.candidates, label: Candidate(label=label)}
        if trainer.settings(store, label) is not None:
            runs_of = trainer.specs(store, label, Rung(1.0, REFERENCE_SEEDS))
            specs = [spec for spec in runs_of if not store.finished(spec.identity)]
            total += sum(trainer.study.cost.seconds(spec, store) for spec in specs)
    return SLACK * total / processes + START_SECONDS if total else 0.0


def _references(trainer: StudyTrainer, store: Store, race: Race, deadline: Deadline) -> dict[str, dict[int, float]]:
    """Scores of baselines on the test part, if time is left for them."""
    made: dict[str, dict[int, float]] = {}
    seeds = min(REFERENCE_SEEDS, race.looks[-1].rung.seeds)
    for label in trainer.kind.references:
        if trainer.settings(store, label) is None:
            continue
        specs = trainer.specs(store, label, Rung(1.0, seeds))
        if deadline.remaining() > 0:
            trainer.execute(store, specs)
        done = [spec for spec in specs if store.finished(spec.identity)]
        made[label] = {spec.seed: trainer.score(store.read(spec.identity)).test for spec in done}
    return made


def _answered(
    trainer: StudyTrainer,
    store: Store,
    race: Race,
    plan: RacePlan,
    fit: Fitting,
    references: Mapping[str, Mapping[int, float]],
    gaps: Sequence[ControlGap],
    budget: str,
) -> Advice:
    """The answer in sentences, its code and its page."""
    kind, verdict, last = trainer.kind, race.verdict, race.looks[-1]
    runs_of = trainer.specs(store, verdict.chosen, last.rung)
    best = max(runs_of, key=lambda spec: last.scores[verdict.chosen].get(spec.seed, _NOTHING).validation)
    stored = store.read(best.identity)
    controls = {name: candidate.control for name, candidate in trainer.candidates.items() if candidate.control}
    validation = VALIDATION if kind.held_out else "the seeds that choose"
    scale = Scale(trainer.metric(stored), _held_out_words(best.settings, kind), controls, validation)
    calls = tuple(stored.timing.get("calls", ()))
    untried = [name for name in fit.candidates if name not in race.tried and name not in trainer.failed]
    apart = baseline_gaps(references, race, plan.test_ratio)
    sentences = [recommendation(race, scale, untried, baseline_ahead(apart, scale))]
    sentences += [control_sentence(gaps, verdict.chosen, scale), *reference_sentences(references, apart, scale)]
    sentences += [*late_sentences(race, scale, untried), *failed_sentences(trainer.failed, scale), stop_sentence(race)]
    code = torch_code(kind.study, verdict.chosen, best.settings, calls)
    code = code if runs(code) else ""
    if kind.study == "places" and calls:
        table_code = sklearn_code(best.settings, calls, _columns(store, best.settings))
    else:
        table_code = ""
    parts = PageParts(
        trainer=trainer, store=store, race=race, scale=scale, sentences=tuple(filter(None, sentences)), code=code,
        table_code=table_code, load_code=load_code(str(store.root), best.identity),
        left_out={**fit.left_out, **dict.fromkeys(untried, UNTRIED), **trainer.failed},
        references=references, remarks=tuple(trainer.study.remarks(store, [best])), spec=best, budget=budget,
    )  # fmt: skip
    path = write_advice(parts, page_file.folder(store))
    return Advice(
        recommended=None if verdict.kind == "undecided" else verdict.chosen, ahead=verdict.chosen, kind=verdict.kind,
        equal_to=verdict.others if verdict.kind == "equal" else (), sentences=parts.sentences,
        code=_named_code(table_code or code, verdict), race=race, path=path, study=kind.study,
    )  # fmt: skip


def _named_code(code: str, verdict: Verdict) -> str:
    """Code with a first line that says which candidate it is of, and whether this one is recommended."""
    state = "nothing is recommended yet, it is ahead" if verdict.kind == "undecided" else "recommended"
    return f"# {verdict.chosen}: {state}\n{code}" if code else ""


def _held_out_words(settings: Mapping[str, Any], kind: Kind) -> str:
    """Phrase for the items that a score is of: "4,128 held-out rows of each fold"."""
    items = settings.get("items")
    if not kind.held_out:
        return "seeds that chose nothing"
    if not items:
        return "the test part"
    return f"{items['test']:,} held-out {items['unit']} of each seed"


def _columns(store: Store, settings: Mapping[str, Any]) -> TableColumns:
    """Columns of the table of a run by their use."""
    table = load_table(store.root, settings["data"]["table"])
    times = (table.options["time"],) if len(table.times) else ()
    texts = tuple(name for name, _ in table.categories)
    target = str(table.options.get("target", ""))
    dates = [name for name in table.numeric_names if f"The column {name} is read as dates." in table.left_out]
    dates += [name for name in times if any(note.endswith(COMPACT_TIMES) for note in table.left_out)]
    return TableColumns(table.names, (*table.numeric_names, *times), texts, target, bool(table.classes), tuple(dates))
