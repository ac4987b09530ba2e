"""Study: variants x conditions x seeds, each cell one trained model, declared once.

A study says which variants each panel needs in which condition, and the settings of one run. Its plan, its look-up in
a store, its estimate and its page follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from posenc.workbench.progress import CostEstimate
from posenc.workbench.report.claims_table import Claim
from posenc.workbench.report.live_page import snapshot_path, write_live_page
from posenc.workbench.report.page import Table
from posenc.workbench.report.preregistered import Prediction, judge_predictions
from posenc.workbench.report.result_rows import Row
from posenc.workbench.runs import Procedure, RunSpec
from posenc.workbench.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import planning, stored_runs, study_page
from posenc.workbench.studies.shared.declarations import Condition, PanelSpec, Preset
from posenc.workbench.studies.shared.page_data import PageData


def plain_condition(label: str) -> Condition:
    """A condition that has every variant and whose label says all."""
    return Condition(label=label)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of a run on one core.

    seconds: of one run, from a few timed steps or a limit. memory: bytes of one run beside torch itself. alike: runs
    with equal values cost the same and are timed once. smaller: how a run is made smaller; where it is given, a run
    that does not fit into memory is refused.
    """

    seconds: Callable[[RunSpec, Store], float]
    memory: Callable[[RunSpec], float] = lambda spec: 0.0
    alike: Callable[[RunSpec], Any] = lambda spec: spec.settings
    smaller: str = ""


def _no_predictions(data: PageData) -> Sequence[Prediction]:
    return ()


def _no_remarks(store: Store, specs: Sequence[RunSpec]) -> Sequence[str]:
    return ()


def _no_tables(preset: str, rows: Sequence[Row]) -> Sequence[Table]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Study:
    """A question, the runs that answer it, and the page that shows the answer.

    Attributes:
        name: Id of the study; a constant of stored results.
        question: Title of its page.
        lead: First paragraph of its page.
        takes: The user's own file that it is about, such as "an image"; empty where it takes none.
        scope: What its verdicts hold for and no further; may be empty.
        presets: Scales by name.
        panels: Tables and figures by name, in the order of the page.
        condition: Condition of a label.
        procedure: Trains one run.
        run_settings: Settings of a run, plain JSON, from (request, store, condition, variant), with its data in the
            store; None for a variant that the data has no place for. Raises ValueError for what cannot be run.
        data_key: Part of a run's settings that identifies the user's data; "" where there is none.
        cost: Time and memory of a run.
        headline: First sentence of the page: the answer to the question.
        predictions: Differences named before the run.
        claims: Published claims, each with the control that could refute it.
        published: Tables of what others measured of the same models, beside the rows of a preset.
        limits: Sentences by preset on what its numbers do not say.
        remarks: Sentences on the data of runs, printed at the start and on the page.
        live: Whether runs keep their newest image, for a page to watch.
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
    condition: Callable[[str], Condition] = plain_condition
    data_key: Callable[[Mapping[str, Any]], str] = lambda settings: ""
    takes: str = ""
    scope: str = ""
    predictions: Callable[[PageData], Sequence[Prediction]] = _no_predictions
    claims: Sequence[Claim] = ()
    published: Callable[[str, Sequence[Row]], Sequence[Table]] = _no_tables
    limits: Mapping[str, Sequence[str]] = field(default_factory=dict)
    remarks: Callable[[Store, Sequence[RunSpec]], Sequence[str]] = _no_remarks
    live: bool = False

    def asks(self, preset: str) -> bool:
        """Whether a preset is long enough to ask before it starts."""
        return self.presets[preset].asks

    def plan(self, request: Request, store: Store) -> list[RunSpec]:
        """Runs of a request, data made or read. Raises ValueError for what cannot be run."""
        return planning.plan(self, request, store)

    def measurements(self, request: Request, store: Store, specs: Sequence[RunSpec]) -> list[RunSpec]:
        """Runs that measure these trained ones for the panels of a request; only of finished runs with weights."""
        return planning.measurements(self, request, store, specs)

    def processes_that_fit(self, specs: Sequence[RunSpec], processes: int) -> int:
        """As many processes, up to the given number, as the largest of these runs fit into free memory."""
        return planning.processes_that_fit(self, specs, processes)

    def estimate(self, specs: Sequence[RunSpec], store: Store, processes: int) -> CostEstimate:
        """Time and memory of runs, from a measurement on this machine."""
        return planning.estimate(self, specs, store, processes)

    def order(self, spec: RunSpec) -> float:
        """Relative cost of a run, to begin the longest first."""
        training = spec.settings.get("training", {})
        return float(training.get("seconds") or training.get("epochs", 1))

    def stored(self, request: Request, store: Store) -> list[RunSpec]:
        """Finished runs of a store that a page of this request shows. Makes no data.

        Raises ValueError, with the command that makes them, where there are none.
        """
        return stored_runs.find(self, request, store)

    def announce(self, request: Request, store: Store, specs: Sequence[RunSpec]) -> Sequence[str]:
        """Lines to print before these runs start: remarks on the data, and where to watch."""
        todo = [spec for spec in specs if not store.finished(spec.identity)]
        remarks = tuple(self.remarks(store, specs))
        if not self.live or not todo:
            return remarks
        path, shown = store.root / "pages" / f"{self.name}-live.html", {}
        for spec in sorted(specs, key=lambda spec: store.finished(spec.identity)):
            file = snapshot_path(store.root, spec.identity)
            if not store.finished(spec.identity) or file.exists():
                shown.setdefault(study_page.display_label(spec), file.relative_to(path.parent).as_posix())
        write_live_page(path, self.question, shown)
        return (*remarks, f"Watch it: {path}")

    def page_data(self, request: Request, store: Store, specs: Sequence[RunSpec]) -> PageData:
        """What a page is drawn from."""
        return PageData(
            request=request,
            preset=self.presets[request.preset],
            store=store,
            specs=specs,
            measured=self.measurements(request, store, specs),
            page=study_page.file_name(self, request, store, specs),
        )

    def page(self, request: Request, store: Store, specs: Sequence[RunSpec], failures: Mapping[str, str]) -> Path:
        """Write the page of what the store holds of these runs; failures: identity to sentence."""
        return study_page.write(self, request, store, specs, failures)

    def verdict(self, request: Request, store: Store, specs: Sequence[RunSpec]) -> Sequence[str]:
        """First lines of the page, for a terminal."""
        data = self.page_data(request, store, specs)
        findings = judge_predictions(data.rows, self.predictions(data))
        return [self.headline(data), *(f"{each.word}: {each.text}" for each in findings)]


def settings_key(*path: str) -> Callable[[Mapping[str, Any]], str]:
    """A ``data_key`` that reads one entry of the settings; "" where it is absent."""

    def key(settings: Mapping[str, Any]) -> str:
        value: Any = settings
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return "" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()

    return key
