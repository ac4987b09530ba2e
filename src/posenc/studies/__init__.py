"""One question a file; each file ends in a ``STUDY``. The folder is walked: nothing lists the studies."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from posenc.report.ledger import Claim
from posenc.report.page import Table
from posenc.report.rows import Row
from posenc.runner import Estimate
from posenc.specification import unknown
from posenc.store import Store, Unit


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What somebody asked of a study; None means the preset's own choice."""

    preset: str
    panels: Sequence[str] | None = None
    schemes: Sequence[str] | None = None
    seeds: Sequence[int] | None = None
    device: str = "cpu"
    data: Path | None = None
    source: Path | None = None
    """The user's own file or folder that the study is about, where it takes one."""

    def __post_init__(self) -> None:
        beyond = [seed for seed in self.seeds or () if not 0 <= seed < 2**63]
        if beyond:
            raise ValueError(f"a seed is a whole number from 0 to 2^63 - 1; got {beyond[0]}. Use --seeds 0 1 2.")
        for name, values in (("seed", self.seeds), ("scheme", self.schemes), ("panel", self.panels)):
            twice = [v for i, v in enumerate(values or ()) if v in (values or ())[:i]]
            if twice:
                raise ValueError(
                    f"{name} {twice[0]} is given twice; a second run of it would be the same. Name it once."
                )
            if values is not None and not values:
                raise ValueError(f"no {name} is given; name at least one, or leave --{name}s out for the preset's own.")


@runtime_checkable
class Study(Protocol):
    """A question, the units of work that answer it, and the page that shows the answer."""

    name: str
    question: str
    presets: Mapping[str, str]
    """Preset to one sentence of what it trains and how long that takes."""
    asks: frozenset[str]
    """Presets that are long enough to ask before they start."""

    takes: str
    """What kind of file of the user's own it is about, as "a picture"; empty where it takes none."""

    panels: Mapping[str, str]
    """Panel to one sentence of what it shows; a preset shows some of them unless others are asked for."""

    scope: str
    """What its verdicts hold for and no further, in a sentence or two; may be empty."""

    claims: Sequence[Claim]
    """What somebody published about the question, each with the control that could refute it."""

    def beside(self, preset: str, rows: Sequence[Row]) -> Sequence[Table]:
        """What others measured of the very same models, beside these rows of the store."""
        ...

    def plan(self, request: Request, store: Store) -> list[Unit]:
        """The units of a request, data made or read. Raises ValueError for what cannot be run."""
        ...

    def announce(self, request: Request, store: Store, units: Sequence[Unit]) -> Sequence[str]:
        """What a person should know before these units start, as where to watch them."""
        ...

    def measurements(self, request: Request, store: Store, units: Sequence[Unit]) -> list[Unit]:
        """What is to be measured of these units, for the panels of a request, once they are finished."""
        ...

    def stored(self, request: Request, store: Store) -> list[Unit]:
        """The units of the store that a page of this request shows, and the planned ones that it lacks.

        Raises ValueError, with the command that makes them, where there are none.
        """
        ...

    def at_once(self, units: Sequence[Unit], processes: int) -> int:
        """Of so many processes on the CPU, as many as fit into memory with these units."""
        ...

    def estimate(self, units: Sequence[Unit], store: Store, processes: int) -> Estimate:
        """Time and memory of units that are still to run, from a measurement on this machine."""
        ...

    def cost(self, unit: Unit) -> float:
        """Relative cost of a unit, to begin the longest first."""
        ...

    def page(self, request: Request, store: Store, units: Sequence[Unit], failures: Mapping[str, str]) -> Path:
        """Write the page of what the store holds of these units; failures: unit key to its sentence."""
        ...

    def verdict(self, request: Request, store: Store, units: Sequence[Unit]) -> Sequence[str]:
        """What the page says first, as lines for a terminal."""
        ...


def studies() -> dict[str, Study]:
    """Every study by its name."""
    found = {}
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        if hasattr(module, "STUDY"):
            found[module.STUDY.name] = module.STUDY
    return found


def find(name: str) -> Study:
    """The study of that name. Raises ValueError with the nearest names."""
    known = studies()
    if name not in known:
        raise ValueError(f"{unknown('study', name, known)} The studies are {', '.join(known)}.")
    return known[name]


def refuse_preset(study: Study, preset: str) -> None:
    if preset not in study.presets:
        raise ValueError(
            f"{unknown('preset', preset, study.presets)} The presets of {study.name} are {', '.join(study.presets)}."
        )
