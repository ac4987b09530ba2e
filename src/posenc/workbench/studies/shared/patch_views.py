"""Views of the patches of an image: the view that a vision model gives to a scheme.

RoPE@index    the number of a patch          GridPE@unit    the center of a patch in the unit square
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch

from posenc.lookup.scheme_text import Specification, build, find
from posenc.models.sites import View, patch_positions
from posenc.scheme import Scheme
from posenc.workbench.studies.shared import position_views
from posenc.workbench.studies.shared.position_views import PositionView, listed

VIEWS = (
    PositionView("grid", 2, "row and column; a scheme of one axis reads the number of the patch"),
    PositionView("unit", 2, "center of the patch in the unit square"),
    PositionView("index", 1, "number of the patch in reading order"),
)
"""Views of the patches, from the richest."""


def refuse_view(asked: str) -> None:
    """Raise ValueError for a view that patches do not have.

    Args:
        asked: Name of the view; "" for none.

    Raises:
        ValueError: There is no such view; the message lists the views.
    """
    position_views.refuse_view(asked, VIEWS)


def view_of(
    scheme: Specification, known: Callable[[type[Scheme]], Mapping[str, Any]], shape: tuple[int, int], asked: str
) -> tuple[View, Specification]:
    """Choose the view of the patches that a scheme reads.

    Args:
        scheme: The scheme.
        known: Function from a class to the constructor arguments that follow from the model.
        shape: Rows and columns of patches.
        asked: Name of the view that the label names; "" for "grid", or "unit" for a scheme that is defined there.

    Returns:
        The view of the model, and the scheme, which gets axes=1 for the view "index" if its class takes axes.

    Raises:
        ValueError: The scheme does not read positions of the view that is named, or of any.
    """
    if asked == "index" and "axes" in inspect.signature(find(scheme.scheme)).parameters:
        scheme = msgspec.structs.replace(scheme, options={"axes": 1, **scheme.options})
    if not asked:
        misfit = _misfit(scheme, known, shape, "grid")
        if misfit and (not _in_unit_square(scheme, known) or _misfit(scheme, known, shape, "unit")):
            raise ValueError(misfit)
        return "unit" if misfit else "grid", scheme
    view: View = "unit" if asked == "unit" else "grid"
    axes = 1 if asked == "index" else 2
    if misfit := _misfit(scheme, known, shape, view, axes):
        raise ValueError(f"{scheme.scheme} does not fit the view {asked}: {misfit} {listed(VIEWS)}")
    return view, scheme


def _in_unit_square(scheme: Specification, known: Callable[[type[Scheme]], Mapping[str, Any]]) -> bool:
    """True for a scheme that is defined from 0 to 1 on each axis."""
    try:
        with torch.random.fork_rng(devices=[]):
            claims = build(scheme, known).claims
    except ValueError:
        return False
    return all(each is not None and each[1] <= 1 for each in claims.limits(claims.axes or 2))


def _misfit(
    scheme: Specification,
    known: Callable[[type[Scheme]], Mapping[str, Any]],
    shape: tuple[int, int],
    view: View,
    axes: int | None = None,
) -> str:
    """Reason why a scheme does not read a view with a number of axes; "" if it does. axes: None for any number."""
    try:
        with torch.random.fork_rng(devices=[]):
            built = build(scheme, known)
            built.prepare(patch_positions(shape, built.claims.axes, view))
    except ValueError as error:
        return str(error)
    count = built.claims.axes
    return f"it reads {count} {'axis' if count == 1 else 'axes'}." if axes and count not in (None, axes) else ""
