"""What a study declares: presets, conditions and panels.

A variant is an encoding under its label. A condition is a way of training every variant (data, protocol, training). A
panel is a table or figure of the page, with the variants that it needs in each condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from posenc.workbench.report.page import Panel
from posenc.workbench.runs import RunSpec
from posenc.workbench.store import Store

if TYPE_CHECKING:
    from posenc.workbench.studies import Request
    from posenc.workbench.studies.shared.page_data import PageData

MAIN = "main"
"""Label of the condition that a study is about first."""

Needs = Mapping[str, Sequence[str]]
"""Label of a condition to the labels of its variants."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A scale of a study; a study subclasses it with its own typed sizes.

    about: what it trains and how long that takes. scale: the same as a phrase for the page. panels: the panels that it
    draws unless others are asked for. asks: whether it asks before it starts, because it is long.
    """

    about: str
    scale: str
    seeds: Sequence[int]
    panels: Sequence[str]
    asks: bool = True
    own: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One way of training every variant.

    label: name in the store. title: phrase for the page. changes: setting to the value that differs from the main
    condition, as the page prints it. has_variant: whether a variant is trained in it.
    """

    label: str
    title: str = ""
    changes: Mapping[str, str] = field(default_factory=dict)
    has_variant: Callable[[str], bool] = lambda variant: True

    def changes_in(self, data: PageData) -> Mapping[str, str]:
        """``changes`` for the runs of a page; a subclass may read them from stored settings."""
        return self.changes


def _nothing(request: Request, preset: Any, store: Store, specs: Sequence[RunSpec]) -> Sequence[RunSpec]:
    return ()


@dataclass(frozen=True, kw_only=True)
class PanelSpec:
    """A panel before it is drawn.

    about: its subject. shows: the figure or table of a publication that it redraws. needs: the variants that it needs
    in each condition, from the request and its preset. draw: from the data of the page to finished panels. measured:
    the runs that measure its trained ones, of those that are finished. shows_condition: whether it shows a stored
    condition, for panels whose conditions depend on data that a report does not ask for; None if ``needs`` decides.
    """

    about: str
    shows: str
    needs: Callable[[Request, Any], Needs]
    draw: Callable[[PageData], list[Panel]]
    measured: Callable[[Request, Any, Store, Sequence[RunSpec]], Sequence[RunSpec]] = _nothing
    shows_condition: Callable[[str], bool] | None = None

    @property
    def description(self) -> str:
        """One line for lists of panels."""
        return f"{self.about} ({self.shows})"
