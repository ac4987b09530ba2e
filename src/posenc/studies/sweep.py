"""A study as a table: rows (encodings) x settings (pictures, protocols) x seeds, each cell one model trained.

What a study of this kind says itself: which rows each panel needs in which setting, and the settings of one unit
(``settle``). From that follow plan, store, estimate and page: a file needs ``STUDY = Sweep(..)``.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from posenc.progress import Estimate
from posenc.report.expectations import Expected, judged, verdict_of
from posenc.report.ledger import Claim, ledger
from posenc.report.page import Panel, Table, write_page
from posenc.report.provenance import what_was_run
from posenc.report.watching import newest, watch
from posenc.specification import unknown
from posenc.store import Store, Unit
from posenc.studies import Request, refuse_preset
from posenc.studies.found import Found, Preset, plain_label, stored_label
from posenc.tasks.room import available, refuse_beyond

Needs = Mapping[str, Sequence[str]]  # setting -> labels of rows
ALL = "all"
WORKER_BYTES = 0.5 * 2**30  # torch and its libraries in one process


def _nothing(request: Request, preset: Preset, store: Store, units: Sequence[Unit]) -> Sequence[Unit]:
    return ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A panel: what it is about, which figure or table of a publication it shows, what it needs, how it is drawn.

    measured: the units that measure what was trained for it, of those that are finished; their rows stand in the store
    under the same labels.
    """

    about: str
    shows: str
    needs: Callable[[Request, Preset], Needs]
    draw: Callable[[Found], list[Panel]]
    measured: Callable[[Request, Preset, Store, Sequence[Unit]], Sequence[Unit]] = _nothing


def _of_one_seed(found: Found) -> tuple[str, ...]:
    """A sentence where something was run with one seed alone."""
    seeds = Counter((unit.setting, plain_label(unit)) for unit in found.done)
    alone = list(dict.fromkeys(setting for (setting, _), count in seeds.items() if count == 1))
    if not alone:
        return ()
    where = "" if len(found.settings) == 1 else f" ({', '.join(alone)})"
    count = sum(count == 1 for count in seeds.values())
    return (
        f"{count} of {len(seeds)} rows{where} were run with one seed: they have no interval, and nothing can be told "
        "by them. Run the same with --seeds 0 1 2.",
    )


class Sweep:
    """A ``Study`` of rows x settings x seeds.

    name, question, lead: of the study; the lead opens its page. takes: what file of the user's it is about. presets,
    plans: scales and panels by name. work: "module:function" that trains a unit. settle: a unit's settings, plain
    JSON, from (request, store, setting, label), with its data in the store; None for a row that its data has no place
    for; raises ValueError for what cannot be run.
    headline: what the rows say, in one sentence. expected: differences named beforehand. seconds, memory: of one unit,
    on one core; asked before anything starts, once for all units of which ``alike`` says the same. limits:
    sentences on what the numbers of a preset do not say. watched: whether a unit keeps its newest picture
    (``report.watching.keep_newest``), for a page to watch. scope: what verdicts on its claims hold for. belongs:
    whether a setting has a row of this label, where not all have the same; of a label that no setting has, ``settle``
    says so.
    remarks: sentences on the data of units, as what of it could not be read: said at the start and on the page.
    lighter: how a unit is made smaller; where this is said, one that does not fit into memory is refused.
    """

    def __init__(
        self,
        *,
        name: str,
        question: str,
        lead: str,
        presets: Mapping[str, Preset],
        plans: Mapping[str, Plan],
        work: str,
        settle: Callable[[Request, Store, str, str], dict[str, Any] | None],
        headline: Callable[[Found], str],
        seconds: Callable[[Unit, Store], float],
        takes: str = "",
        claims: Sequence[Claim] = (),
        expected: Callable[[Found], Sequence[Expected]] = lambda found: (),
        memory: Callable[[Unit], float] = lambda unit: 0.0,
        alike: Callable[[Unit], Any] = lambda unit: unit.settings,
        limits: Mapping[str, Sequence[str]] | None = None,
        watched: bool = False,
        scope: str = "",
        belongs: Callable[[str, str], bool] = lambda setting, label: True,
        remarks: Callable[[Store, Sequence[Unit]], Sequence[str]] = lambda store, units: (),
        lighter: str = "",
    ) -> None:
        self.name, self.question, self.lead, self.takes = name, question, lead, takes
        self.scales, self.plans, self.claims = presets, plans, claims
        self.work, self.settle, self.headline, self.expected = work, settle, headline, expected
        self.seconds, self.memory, self.alike = seconds, memory, alike
        self.limits, self.watched, self.scope, self.belongs = limits or {}, watched, scope, belongs
        self.remarks, self.lighter = remarks, lighter
        self.presets: Mapping[str, str] = {key: preset.about for key, preset in presets.items()}
        self.asks = frozenset(key for key, preset in presets.items() if preset.asks)
        self.panels: Mapping[str, str] = {key: f"{plan.about} ({plan.shows})" for key, plan in plans.items()}

    def beside(self, preset: str, rows: Sequence[Mapping[str, Any]]) -> Sequence[Table]:
        return ()

    def plan(self, request: Request, store: Store) -> list[Unit]:
        refuse_preset(self, request.preset)
        preset = self.scales[request.preset]
        found: dict[str, Unit] = {}
        for setting, labels in self.wanted(request).items():
            for label in labels:
                if (settings := self.settle(request, store, setting, label)) is None:
                    continue
                units = [
                    Unit(
                        study=self.name,
                        preset=request.preset,
                        setting=setting,
                        scheme=stored_label(label, setting),
                        seed=seed,
                        work=self.work,
                        settings=settings,
                    )
                    for seed in request.seeds or preset.seeds
                ]
                if self.lighter and request.device == "cpu" and not all(store.finished(unit.key) for unit in units):
                    refuse_beyond(WORKER_BYTES + self.memory(units[0]), f"training {label}", self.lighter)
                for unit in units:
                    found.setdefault(unit.key, unit)
        return list(found.values())

    def at_once(self, units: Sequence[Unit], processes: int) -> int:
        """Up to so many processes, as the largest of these units fit into free memory beside each other."""
        free = available()
        if free is None:
            return processes
        return max((n for n in range(2, processes + 1) if self._beside(units, n) <= free), default=1)

    def _beside(self, units: Sequence[Unit], processes: int) -> float:
        """Bytes of so many processes with the largest of these units."""
        return sum(sorted((WORKER_BYTES + each for each in self._each(units, self.memory)), reverse=True)[:processes])

    def wanted(self, request: Request) -> dict[str, list[str]]:
        """The labels of each setting: those of the panels, or what was asked for by name in the panels' settings."""
        preset, needed = self.scales[request.preset], {}
        for name in self.chosen(request):
            for setting, labels in self.plans[name].needs(request, preset).items():
                known = needed.setdefault(setting, [])
                known += [label for label in labels if label not in known]
        if request.schemes:
            meant = [self._meant(label, needed) for label in request.schemes]
            needed = {setting: [each for one in meant for each in one.get(setting, ())] for setting in needed}
        return needed

    def _meant(self, label: str, needed: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Where a name that was asked for has rows, and which.

        Itself where it belongs; else the sizes of it that settings need, NAME@SIZE; else itself everywhere, for
        ``settle`` to say what it is.
        """
        sizes = {
            setting: [each for each in labels if each.startswith(f"{label}@")] for setting, labels in needed.items()
        }
        return (
            {setting: [label] for setting in needed if self.belongs(setting, label)}
            or {setting: found for setting, found in sizes.items() if found}
            or {setting: [label] for setting in needed}
        )

    def chosen(self, request: Request) -> tuple[str, ...]:
        """The panels of a request, in the order of the page. Raises ValueError with the nearest name for others."""
        asked = request.panels
        if not asked:
            return tuple(self.scales[request.preset].panels)
        for name in asked:
            if name not in (*self.plans, ALL):
                raise ValueError(
                    f"{unknown('panel', name, [*self.plans, ALL])} The panels are {', '.join([*self.plans, ALL])}."
                )
        return tuple(name for name in self.plans if name in asked or ALL in asked)

    def announce(self, request: Request, store: Store, units: Sequence[Unit]) -> Sequence[str]:
        todo = [unit for unit in units if not store.finished(unit.key)]
        remarks = tuple(self.remarks(store, units))
        if not self.watched or not todo:
            return remarks
        path, shown = store.root / "pages" / f"{self.name}-live.html", {}
        for unit in sorted(units, key=lambda unit: store.finished(unit.key)):
            file = newest(store.root, unit.key)
            if not store.finished(unit.key) or file.exists():
                shown.setdefault(unit.scheme, file.relative_to(path.parent).as_posix())
        watch(path, self.question, shown)
        return (*remarks, f"Watch it: {path}")

    def measurements(self, request: Request, store: Store, units: Sequence[Unit]) -> list[Unit]:
        preset = self.scales[request.preset]
        asked = [self.plans[name].measured(request, preset, store, units) for name in self.chosen(request)]
        return list({unit.key: unit for some in asked for unit in some}.values())

    def stored(self, request: Request, store: Store) -> list[Unit]:
        refuse_preset(self, request.preset)
        found = [u for u in store.units() if (u.study, u.preset, u.work) == (self.name, request.preset, self.work)]
        command = f"posenc run {self.name} --preset {request.preset}"
        if not found:
            raise ValueError(
                f"{store.root} holds no results of {self.name} --preset {request.preset}. "
                f"Make them: {command} --out {store.root}"
            )
        same = self._same(request, store, found)
        if request.source is None and not self._shared(request, same) and not self._shared(request, found):
            same = []  # what matches stands beside results about something else, that a request without it cannot name
        if request.source is not None and not same:
            raise ValueError(
                f"{store.root} holds no results of {self.name} --preset {request.preset} about {request.source}. Make "
                f"them: posenc run {self.name} {request.source} --preset {request.preset} --out {store.root}"
            )
        found = same or found
        (scheme, seed), times = Counter((unit.scheme, unit.seed) for unit in found).most_common(1)[0]
        if times > 1:
            raise ValueError(
                f"{store.root} holds {times} results of {scheme}, seed {seed}: of other data, devices or versions. "
                f"Name what the page is about, posenc report {self.name} PATH or --data DIR, or keep them apart: --out"
            )
        if not request.panels and request.source is None:
            return found
        needed = self.wanted(request)
        shown = [unit for unit in found if unit.setting in needed]
        for name in (each for each in request.panels or () if each != ALL):
            settings = self.plans[name].needs(request, self.scales[request.preset])
            if settings and not any(
                unit.setting in settings and plain_label(unit) in settings[unit.setting] for unit in found
            ):
                raise ValueError(
                    f"the panel {name} needs runs that {store.root} lacks. "
                    f"Make them: {command} --panels {name} --out {store.root}"
                )
        return shown

    def _shared(self, request: Request, units: Sequence[Unit]) -> bool:
        """Whether any of the units is of a setting that the first panel of the preset needs for this request."""
        preset = self.scales[request.preset]
        needed = self.plans[preset.panels[0]].needs(request, preset)
        return any(unit.setting in needed for unit in units)

    def _same(self, request: Request, store: Store, found: Sequence[Unit]) -> list[Unit]:
        """The units that this request would make today, not another picture's; without data, those it cannot settle."""
        settled: dict[tuple[str, str, str], Any] = {}

        def today(unit: Unit) -> bool | None:
            cell = (unit.setting, plain_label(unit), unit.settings.get("device", "cpu"))
            if cell not in settled:
                try:
                    settled[cell] = self.settle(dataclasses.replace(request, device=cell[2]), store, *cell[:2])
                except (ValueError, KeyError):  # no data at hand, or a row or setting that is no more
                    settled[cell] = ... if request.source is None and request.data is None else None
            now = settled[cell]
            return (
                None if now is ... else now is not None and msgspec.structs.replace(unit, settings=now).key == unit.key
            )

        told = {unit.key: today(unit) for unit in found}
        return [unit for unit in found if told[unit.key] is not False] if True in told.values() else []

    def cost(self, unit: Unit) -> float:
        training = unit.settings.get("training", {})
        return float(training.get("seconds") or training.get("epochs", 1))

    def estimate(self, units: Sequence[Unit], store: Store, processes: int) -> Estimate:
        if not units:
            return Estimate(seconds=0, memory_bytes=0, runs=0)
        each = self._each(units, lambda unit: self.seconds(unit, store))
        processes = min(processes, len(units))
        return Estimate(
            seconds=max(sum(each) / processes, max(each)),
            memory_bytes=self._beside(units, processes),
            runs=len(units),
        )

    def _each(self, units: Sequence[Unit], of: Callable[[Unit], float]) -> list[float]:
        """A number of each unit, asked once of those that are alike."""
        kinds = [msgspec.json.encode(self.alike(unit), order="sorted") for unit in units]
        known = {kind: of(unit) for kind, unit in dict(zip(kinds, units, strict=True)).items()}
        return [known[kind] for kind in kinds]

    def found(self, request: Request, store: Store, units: Sequence[Unit]) -> Found:
        return Found(
            request,
            self.scales[request.preset],
            store,
            units,
            measured=self.measurements(request, store, units),
            page=self._file(request, self.chosen(request)),
        )

    def page(self, request: Request, store: Store, units: Sequence[Unit], failures: Mapping[str, str]) -> Path:
        found, names = self.found(request, store, units), self.chosen(request)
        found.folder.mkdir(parents=True, exist_ok=True)
        limits = (*self.limits.get(request.preset, ()), *self.remarks(store, units), *_of_one_seed(found))
        panels = [verdict_of(found.rows, self.headline(found), self.expected(found), limits)]
        for name in names:
            panels += self.plans[name].draw(found)
        if self.claims:
            panels.append(ledger(self.claims, found.rows, title="What is claimed, at this scale"))
        panels.append(self._provenance(found, names, failures))
        asked = f" --panels {' '.join(names)}" if request.panels else ""
        about = f" {request.source.name}" if request.source else ""
        return write_page(
            found.folder / f"{found.page}.html",
            title=self.question,
            lead=f"{self.lead} Scale: {found.preset.scale}.",
            panels=panels,
            footer=(
                f"posenc run {self.name}{about} --preset {request.preset}{asked}. Every number is in the store beside "
                "this page: posenc results."
            ),
        )

    def _file(self, request: Request, names: Sequence[str]) -> str:
        parts = [self.name, request.preset]
        parts += [request.source.stem] if request.source else []
        if request.panels:
            parts += [ALL] if set(names) == set(self.plans) else list(names)
        return "-".join(parts)

    def _provenance(self, found: Found, names: Sequence[str], failures: Mapping[str, str]) -> Panel:
        stored = [found.store.read(unit.key) for unit in found.done]
        others = [f"{key} ({plan.shows})" for key, plan in self.plans.items() if key not in names]
        return what_was_run(
            [{**each.provenance, **each.timing, "unit": each.key} for each in stored],
            planned=len({unit.key for unit in found.units}),
            missing=[
                {"unit": f"{unit.scheme}, seed {unit.seed}", "reason": failures[unit.key]}
                for unit in found.units
                if unit.key in failures
            ],
            not_run=("Panels " + "; ".join(others) + ".",) if others else (),
        )

    def verdict(self, request: Request, store: Store, units: Sequence[Unit]) -> Sequence[str]:
        found = self.found(request, store, units)
        return [
            self.headline(found),
            *(f"{each.word}: {each.text}" for each in judged(found.rows, self.expected(found))),
        ]
