"""Views of the positions that a study offers, and the view that a scheme reads.

    GridPE@grid    on the view that the label names
    GridPE         on the first view of the study, from the richest, that the axes of the scheme fit

The axes of a scheme are those of its text, else those of its class by default. A scheme that fits no view in this way
is built for the axes of a view, if it can be.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch

from posenc.lookup import own_scheme
from posenc.lookup.name_suggestion import unknown
from posenc.lookup.scheme_text import Specification, axes_of, build, call_text, find
from posenc.positions import Positions
from posenc.scheme import Scheme

Sizes = Callable[[type[Scheme]], Mapping[str, Any]]
"""Function from a scheme class to the constructor arguments that follow from a model."""


class PositionView(NamedTuple):
    """A view of the positions of a study.

    Attributes:
        name: Name, as in ``GridPE@grid``.
        axes: Number of axes; None if it depends on the data.
        about: Description of a position.
    """

    name: str
    axes: int | None
    about: str

    def __str__(self) -> str:
        axes = "" if self.axes is None else f"{self.axes} {'axis' if self.axes == 1 else 'axes'}: "
        return f"{self.name} ({axes}{self.about})"


SEGMENTS = PositionView("segments", 2, "number of the segment of a token, and its place in it")
"""View of a language model with a rule of segments."""


class UnfitError(ValueError):
    """Raised if a scheme was built and reads other positions than those of a view."""


def listed(views: Iterable[PositionView]) -> str:
    """List views in a sentence.

    Args:
        views: The views.

    Returns:
        The sentence.
    """
    return f"The views of this study are {', '.join(map(str, views))}."


def refuse_view(asked: str, views: Iterable[PositionView]) -> None:
    """Raise ValueError for a view that a study does not offer.

    Args:
        asked: Name of the view; "" for none.
        views: The views of the study.

    Raises:
        ValueError: The study has no such view; the message lists its views.
    """
    views = list(views)
    if asked and asked not in [view.name for view in views]:
        raise ValueError(f"{unknown('view', asked, [view.name for view in views])} {listed(views)}")


def sizes_at(known: Mapping[str, Any], pos: Positions, *, as_written: bool = False) -> Sizes:
    """Complete the constructor arguments that follow from a model by those that follow from the positions.

    Args:
        known: Arguments that follow from the model.
        pos: The positions that the scheme reads.
        as_written: True to leave the number of axes to the default of a class that has one.

    Returns:
        A function from a class to its arguments. Arguments that follow from the number of positions are given only to
        a class without a default for them, because the default is what stored runs were trained with.
    """
    sides = tuple(pos.lattice or (pos.count,))
    sizes: dict[str, Any] = {"axes": pos.axes, "n": max(sides), "window": sides, "extent": float(max(sides))}
    sizes |= {"max_len": pos.count, "npos_max": pos.count, "max_distance": max(1, pos.count - 1)}
    axes = {} if as_written else {"axes": pos.axes}

    def of_class(kind: type[Scheme]) -> dict[str, Any]:
        parameters = inspect.signature(kind).parameters
        needed = {name for name, each in parameters.items() if each.default is each.empty}
        return {**{name: value for name, value in sizes.items() if name in needed}, **known, **axes}

    return of_class


def choose(
    scheme: Specification,
    known: Mapping[str, Any],
    positions: Mapping[str, Positions],
    views: Iterable[PositionView],
    asked: str = "",
) -> str:
    """Choose the view of the positions that a scheme reads.

    Args:
        scheme: The scheme.
        known: Constructor arguments that follow from the model, without axes.
        positions: Positions by the name of the view, from the richest.
        views: All views of the study, for messages.
        asked: Name of the view that the label names; "" for none.

    Returns:
        The name of the view.

    Raises:
        ValueError: The scheme cannot be built, or it reads graphs, none of the views, or not the one that is named.
    """
    views = list(views)
    refuse_view(asked, views)
    if find(scheme.scheme).graph_view is not None:
        raise ValueError(f"{scheme.scheme} reads nodes of graphs, which these data are not: posenc run graphs.")
    if asked:
        if asked not in positions:
            raise ValueError(f"these data have no view {asked!r}. They have {', '.join(positions)}.")
        _require_fit(scheme, sizes_at(known, positions[asked]), positions[asked], views, asked)
        return asked
    axes = _own_axes(scheme)
    of_these_axes = [name for name, pos in positions.items() if pos.axes == axes]
    attempts = [(name, True) for name in of_these_axes or (positions if axes is None else ())]
    if not of_these_axes:  # it may be built for the axes of a view
        attempts += [(name, False) for name in positions]
    errors: list[ValueError] = []
    for name, as_written in attempts:
        pos = positions[name]
        if not as_written and any(not isinstance(error, UnfitError) for error in errors):
            break  # with other axes the same error would be hidden
        try:
            _require_fit(scheme, sizes_at(known, pos, as_written=as_written), pos, views)
        except ValueError as error:
            errors.append(error)
        else:
            return name
    raise next((each for each in errors if not isinstance(each, UnfitError)), errors[0])


def _own_axes(scheme: Specification) -> int | None:
    """Number of axes in the text of a scheme, or by default of its class; None if its class takes no such argument."""
    parameter = inspect.signature(find(scheme.scheme)).parameters.get("axes")
    named = axes_of(scheme)
    if named is None and parameter is not None and isinstance(parameter.default, int):
        return parameter.default
    return named


def _require_fit(
    scheme: Specification, sizes: Sizes, pos: Positions, views: Iterable[PositionView], asked: str = ""
) -> None:
    """Raise ValueError for a scheme that cannot be built, or that does not read these positions."""
    with torch.random.fork_rng(devices=[]), own_scheme.errors_in_a_sentence(call_text(scheme)):
        built = build(scheme, sizes)
        if built.claims.axes not in (None, pos.axes):
            count = f"{built.claims.axes} {'axis' if built.claims.axes == 1 else 'axes'}"
            misfit = f"and the view {asked} has {pos.axes}" if asked else "which no view of this study has"
            raise UnfitError(f"{call_text(scheme)} reads positions of {count}, {misfit}. {listed(views)}")
        built.prepare(pos)


def refuse_graphs(scheme: Scheme) -> None:
    """Raise ValueError for a scheme that reads graphs, in a study whose positions are not nodes."""
    if scheme.graph_reads:
        raise ValueError(
            f"{type(scheme).__name__} reads the graphs of nodes, and positions of this study are points. "
            "docs/graphs.md shows a model with it."
        )


def view_in(settings: Mapping[str, Any], views: Iterable[PositionView]) -> str:
    """Read the view of a run from its settings.

    Args:
        settings: The settings.
        views: The views of the study.

    Returns:
        Name of the view with its axes; "" for a run without an encoding, or if it is not stored.
    """
    views = list(views)
    row = settings.get("row")
    if not isinstance(row, Mapping):
        return ""
    config = row.get("config", {})
    if config.get("segments"):  # a model with a rule of segments reads its positions off the tokens
        return str(SEGMENTS)
    found = row.get("view") or config.get("options", {}).get("view") or config.get("view")
    if not found and len(views) == 1:
        found = views[0].name
    about = {view.name: str(view) for view in views}
    return about.get(found, found or "")
