"""Study: variants x conditions x seeds, one trained model for each, declared once.

A study declares the variants that each panel needs in each condition, and the settings of one run. The list of runs,
their stored results, the estimated cost and the page follow from these declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from posenc.workbench.dataset_record import DatasetRecord
from posenc.workbench.progress import CostEstimate
from posenc.workbench.report.claims_table import Claim
from posenc.workbench.report.live_page import LivePage
from posenc.workbench.report.page import Table
from posenc.workbench.report.paper_parts import PaperPart
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.report.result_rows import Row
from posenc.workbench.runs import Procedure, RunSpec
from posenc.workbench.storage.result_checks import by_code
from posenc.workbench.storage.settings_checks import by_settings
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import (
    own_data_answer,
    own_data_page,
    page_file,
    page_records,
    planning,
    stored_runs,
    study_page,
    written_differences,
)
from posenc.workbench.studies.shared.changes import changed_preset
from posenc.workbench.studies.shared.compared_score import ComparedScore, on_own_data
from posenc.workbench.studies.shared.declarations import Condition, PanelSpec, Preset
from posenc.workbench.studies.shared.lr_sweep import study_condition
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.position_views import PositionView
from posenc.workbench.studies.shared.stored_model import StoredModel
from posenc.workbench.tables.curve_table import ArrayAxis


def plain_condition(label: str) -> Condition:
    """Condition that has every variant and no title."""
    return Condition(label=label)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of a run on one CPU core.

    Attributes:
        seconds: Seconds of a run, from a few timed steps or from its time limit.
        memory: Bytes of a run, without torch itself.
        alike: Maps a run to a value; runs with equal values cost the same, and are timed once.
        smaller: Sentence that names a smaller run. If it is given, a run that does not fit into memory is refused.
        page: Seconds of what the page of runs needs beside its drawing, such as the frames of a turntable.

    Example:
        >>> from posenc.workbench import Cost
        >>> cost = Cost(seconds=lambda spec, store: 60.0, memory=lambda spec: 2e8)
        >>> cost.memory(None)
        200000000.0
    """

    seconds: Callable[[RunSpec, Store], float]
    memory: Callable[[RunSpec], float] = lambda spec: 0.0
    alike: Callable[[RunSpec], Any] = lambda spec: spec.settings
    smaller: str = ""
    page: Callable[[Sequence[RunSpec]], float] = lambda specs: 0.0


def _no_predictions(data: PageData) -> Sequence[Prediction]:
    return ()


def _nothing_compared(data: PageData) -> Sequence[ComparedScore]:
    return ()


def _no_remarks(store: Store, specs: Sequence[RunSpec]) -> Sequence[str]:
    return ()


def _nothing_first(data: PageData) -> Sequence[str]:
    return ()


def _no_modules(data: PageData) -> Sequence[dict[str, Any]]:
    return ()


def _nothing_after(data: PageData) -> Iterator[str]:
    return iter(())


def _no_tables(preset: str, rows: Sequence[Row]) -> Sequence[Table]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Study:
    """Study: a question, the runs that answer it, and the page that shows the answer.

    CONTRIBUTING.md has a complete example, from the settings of a run to the page.

    Attributes:
        name: Id of the study; a constant of stored results.
        question: The question; title of the page.
        lead: First paragraph of the page.
        presets: Presets by name.
        panels: Tables and figures by name, in the order of the page.
        procedure: Procedure that trains one run.
        run_settings: Maps (request, store, condition, variant) to the settings of a run, plain JSON. It also writes the
            data that the run needs into the store, and names their record there ("dataset"). None for a variant that
            cannot represent the data. It raises ValueError for a request that cannot be run.
        cost: Time and memory of a run.
        headline: Maps the data of the page to its first sentence, the answer to the question.
        compared: Maps the data of a page on the user's own data to the scores by which variants are compared. With such
            scores, the page states only differences that models which still learn will keep.
        first: Maps the data of a page on the user's own data to the sentences that its answer begins with. The terminal
            prints them last.
        first_panel: Name of the panel that stands before the comparison of variants on a page of the user's own data.
        own_question: Maps the record of the user's data to the title of their page. Default: ``question``.
        modules: Maps the data of a page to one row per token, with the module that the models of all seeds find for it.
        baselines: Variants without a training, which a request on the user's own data executes too if it names none.
        meanings: Variant -> its meaning, for variants that the first sentence on their scheme does not explain.
        metrics: Stored names of the metrics that the answer is about, the main one first: the columns of `posenc
            results`. "loss_at_x*" stands for the stored metric of this form with the largest number.
        arrays: Stored arrays with one value per position, and their axes; `posenc results --curves` writes them.
        condition: Maps a label to its condition.
        takes: File of the user that the study reads, such as "an image"; empty without one.
        data: File or folder in the folder of real data (--data) -> its use, and the replacement without it.
        scope: Data and models that the verdicts hold for; may be empty.
        predictions: Maps the data of the page to the differences that were predicted before the run.
        claims: Published claims, each with a control that could refute it.
        parts: Tables and figures of publications, with the panels that redraw them.
        published: Maps a preset and its rows to tables of published results of the same models.
        limits: Preset to sentences on the limits of its results on built-in data; a page of own data lacks them.
        protocol_limits: Preset to sentences on the limits of its protocol, which are true of any data.
        passes: True if an epoch of the settings is a pass over the training data, False if it is a step. On own data
            it is always a step.
        remarks: Maps a store and runs to sentences on their data, printed at the start and on the page.
        after_page: Renders what takes long, once the page is written, and yields lines on the progress; the page is
            then written again. It stores what it has finished, and yields nothing if nothing is missing.
        live: True if runs write their newest image, which the live page shows.
        views: Views of the positions that a scheme can be put on, from the richest, as in "GridPE@grid".
        stored_model: Model whose weights the runs store, for ``posenc.load``; None if they store none.

    Example:
        >>> from posenc.workbench import find_study
        >>> study = find_study("latin-squares")
        >>> sorted(study.presets)
        ['paper', 'quick', 'replicate', 'standard']
    """

    name: str
    question: str
    lead: str
    presets: Mapping[str, Preset]
    panels: Mapping[str, PanelSpec]
    procedure: Procedure
    run_settings: Callable[[Request, Store, str, str], dict[str, Any] | None]
    cost: Cost
    headline: Callable[[PageData], str]
    compared: Callable[[PageData], Sequence[ComparedScore]] = _nothing_compared
    first: Callable[[PageData], Sequence[str]] = _nothing_first
    first_panel: str = ""
    own_question: Callable[[DatasetRecord], str] | None = None
    modules: Callable[[PageData], Sequence[dict[str, Any]]] = _no_modules
    baselines: Sequence[str] = ()
    meanings: Mapping[str, str] = field(default_factory=dict)
    metrics: Sequence[str] = ()
    arrays: Mapping[str, ArrayAxis] = field(default_factory=dict)
    condition: Callable[[str], Condition] = plain_condition
    takes: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    scope: str = ""
    predictions: Callable[[PageData], Sequence[Prediction]] = _no_predictions
    claims: Sequence[Claim] = ()
    parts: Sequence[PaperPart] = ()
    published: Callable[[str, Sequence[Row]], Sequence[Table]] = _no_tables
    limits: Mapping[str, Sequence[str]] = field(default_factory=dict)
    protocol_limits: Mapping[str, Sequence[str]] = field(default_factory=dict)
    passes: bool = False
    remarks: Callable[[Store, Sequence[RunSpec]], Sequence[str]] = _no_remarks
    after_page: Callable[[PageData], Iterator[str]] = _nothing_after
    live: bool = False
    views: Sequence[PositionView] = ()
    stored_model: StoredModel | None = None

    def asks(self, preset: str) -> bool:
        """Return True if a preset asks for confirmation before it starts.

        Args:
            preset: Name of the preset.

        Returns:
            True if it asks.
        """
        return self.presets[preset].asks

    def plan(self, request: Request, store: Store) -> list[RunSpec]:
        """List the runs of a request, and write the data that they need into the store.

        Args:
            request: Preset, panels, variants and seeds.
            store: Receives the data.

        Returns:
            The runs, finished ones included.

        Raises:
            ValueError: The request names an unknown panel or variant, or it cannot be run.
        """
        return planning.plan(self, request, store)

    def sweep(self, request: Request, store: Store) -> list[RunSpec]:
        """List the runs that compare the learning rates of a request. They are executed before the others.

        Args:
            request: The request.
            store: Receives the data.

        Returns:
            The runs, finished ones included; none without learning rates.
        """
        return planning.sweep(self, request, store)

    def measurements(self, request: Request, store: Store, specs: Sequence[RunSpec]) -> list[RunSpec]:
        """List the runs that measure trained models for the panels of a request.

        Args:
            request: The request.
            store: The store of the trained runs.
            specs: The trained runs; only finished ones with weights are measured.

        Returns:
            The measuring runs, finished ones included.
        """
        return planning.measurements(self, request, store, specs)

    def processes_that_fit(self, specs: Sequence[RunSpec], processes: int) -> int:
        """Return the number of processes whose runs fit into free memory together.

        Args:
            specs: The runs; the largest counts.
            processes: Upper limit.

        Returns:
            The number of processes, at least 1.
        """
        return planning.processes_that_fit(self, specs, processes)

    def estimate(self, specs: Sequence[RunSpec], store: Store, processes: int) -> CostEstimate:
        """Estimate the time and memory of runs, from a measurement on this machine.

        Args:
            specs: The runs.
            store: The store with their data.
            processes: Number of processes that run at the same time.

        Returns:
            The estimate.
        """
        return planning.estimate(self, specs, store, processes)

    def order(self, spec: RunSpec) -> float:
        """Return the relative cost of a run; runs of higher cost start first.

        Args:
            spec: The run.

        Returns:
            Its time limit in seconds, or its number of epochs.
        """
        training = spec.settings.get("training", {})
        return float(training.get("seconds") or training.get("epochs", 1))

    def stored(self, request: Request, store: Store) -> list[RunSpec]:
        """List the finished runs that a page of a request shows. No data is made.

        Args:
            request: The request.
            store: The store.

        Returns:
            The runs.

        Raises:
            ValueError: There are none; the message names the command that makes them.
        """
        return stored_runs.find(self, request, store)

    def joined(self, request: Request, store: Store, specs: Sequence[RunSpec]) -> list[RunSpec]:
        """Add the finished runs of earlier commands that the page of a request shows too.

        Args:
            request: The request.
            store: The store.
            specs: The planned runs.

        Returns:
            The planned runs, then the stored runs of other variants and seeds with the same preset and data.
        """
        return stored_runs.joined(self, request, store, specs)

    def announce(self, request: Request, store: Store, specs: Sequence[RunSpec]) -> Sequence[str]:
        """Return the lines to print before runs start.

        Args:
            request: The request.
            store: The store.
            specs: The runs.

        Returns:
            Changed settings and panels left out, differences of written encodings from the study's variants, the data,
            then remarks on them.
        """
        return (
            *planning.changed_lines(self, request),
            *written_differences.lines(self, request, store),
            *page_records.sentences(store, specs),
            *self.remarks(store, specs),
        )

    def live_page(self, request: Request, store: Store, specs: Sequence[RunSpec]) -> LivePage:
        """Make the live page of runs, for ``runner.run``. It has the address of the final page.

        Args:
            request: The request.
            store: The store.
            specs: The runs.

        Returns:
            The live page, a context manager. It is written when runs start.
        """
        return study_page.live(self, request, store, specs)

    def page_data(self, request: Request, store: Store, specs: Sequence[RunSpec]) -> PageData:
        """Collect the data of a page.

        Args:
            request: The request.
            store: The store.
            specs: The trained runs.

        Returns:
            The data that panels are drawn from.
        """
        page = page_file.file_name(self, request, store, specs)
        specs, of_settings = by_settings(store, specs)
        specs, of_code = by_code(store, specs)
        full = [spec for spec in specs if study_condition(spec.condition) == spec.condition]
        return PageData(
            request=request,
            preset=changed_preset(self.presets, request),
            store=store,
            specs=full,
            measured=self.measurements(request, store, specs),
            page=page,
            repeated=[spec for spec in specs if study_condition(spec.condition) != spec.condition],
            remarks=(*of_settings, *of_code),
        )

    def page(self, request: Request, store: Store, specs: Sequence[RunSpec], failures: Mapping[str, str]) -> Path:
        """Write the page of runs from their stored results.

        Args:
            request: The request.
            store: The store.
            specs: The trained runs; unfinished ones are listed as missing.
            failures: Identity to error message, for runs that failed.

        Returns:
            The HTML file.
        """
        return study_page.write(self, request, store, specs, failures)

    def verdict(self, request: Request, store: Store, specs: Sequence[RunSpec]) -> Sequence[str]:
        """Return the first lines of the page, for a terminal.

        Args:
            request: The request.
            store: The store.
            specs: The trained runs.

        Returns:
            The answer, then one line per prediction.
        """
        data = self.page_data(request, store, specs)
        findings = own_data_page.judged_predictions(self, data)
        return [*self.answer(data), *(f"Prediction {each.word.lower()}: {each.text}" for each in findings)]

    def answer(self, data: PageData) -> tuple[str, ...]:
        """Return the answer to the question: the headline, and further paragraphs on a user's own data.

        Args:
            data: The data of the page.

        Returns:
            One text per paragraph.
        """
        if on_own_data(data) and self.compared(data):
            return (*self.first(data), *own_data_answer.answer(self, data))
        return (self.headline(data),)

    def last_lines(self, request: Request, store: Store, specs: Sequence[RunSpec]) -> Sequence[str]:
        """Return the sentences of the answer that a terminal prints last, with the files beside the page.

        Args:
            request: The request.
            store: The store.
            specs: The trained runs.

        Returns:
            The first sentences of a page on the user's own data; empty for other pages.
        """
        data = self.page_data(request, store, specs)
        return tuple(self.first(data)) if on_own_data(data) else ()
