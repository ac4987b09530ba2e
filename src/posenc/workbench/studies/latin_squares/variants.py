"""The encodings of the Latin-square study by label, and the groups of encodings in panels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from posenc.lookup import scheme_text
from posenc.lookup.name_suggestion import plain_name
from posenc.workbench.studies.shared.learned_tables import PREFIX, learned, sigma_of
from posenc.workbench.studies.shared.position_views import PositionView
from posenc.workbench.studies.shared.written_schemes import is_same, named_like

VIEWS = (
    PositionView("grid", 2, "row and column of a cell"),
    PositionView("index", 1, "number of a cell in reading order"),
)
"""Views of the positions, from the richest."""


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """An encoding: a scheme on a view of the positions, and its changes to the model and the training.

    The field names are stored names.
    """

    scheme: str
    options: dict[str, Any] = {}
    view: Literal["index", "grid"] = "index"
    model: dict[str, Any] = {}
    training: dict[str, Any] = {}


VARIANTS: dict[str, Variant] = {
    "2d-fixed": Variant(scheme="Sinusoid", options={"axes": 2}, view="grid"),
    "1d-fixed": Variant(scheme="Sinusoid"),
    # The authors have projections without a bias for these two.
    "rope": Variant(scheme="RoPE", model={"projection_bias": False}),
    "causal-nope": Variant(scheme="CausalNoPE", model={"projection_bias": False}),
    "relative": Variant(scheme="Shaw"),
    "random": Variant(scheme="Random"),
    "nope": Variant(scheme="NoPE"),
}
"""The study's own names. ``learned-SIGMA`` and any text such as ``Shaw(values=False)`` name further variants. A text
has the view, the model and the training of the variant of its scheme."""

AS_RELEASED: dict[str, Variant] = {
    # The authors' sinusoids have a dropout of 0.1, and their models are never evaluated in evaluation mode.
    "2d-fixed-literal": Variant(
        scheme="Sinusoid",
        options={"axes": 2},
        view="grid",
        model={"encoding_dropout": 0.1},
        training={"evaluate_in_train_mode": True},
    ),
    "1d-fixed-literal": Variant(
        scheme="Sinusoid", model={"encoding_dropout": 0.1}, training={"evaluate_in_train_mode": True}
    ),
    "relative-literal": Variant(scheme="Shaw", options={"literal": True}, model={"output_projection": False}),
    "causal-nope-literal": Variant(scheme="CausalNoPE", options={"literal": True}, model={"projection_bias": False}),
}
"""Encodings as the authors' code runs them, if the code differs from their text."""


SIGMAS = tuple(tenth / 10 for tenth in range(1, 21))
"""Standard deviations of the paper's learned tables."""

TABLE_1 = tuple(VARIANTS)
"""The encodings of the paper's Table 1 as their papers define them, without the learned tables."""

ACCURACY = (*TABLE_1, *map(learned, (0.1, 0.2, 1.0, 2.0)))
SIGMA_GAP = ("learned-0.2", "learned-2")
SMALL_SIGMAS = (0.01, 0.05, 0.1, 0.2)
HEADS = ("2d-fixed", "1d-fixed", "rope", "relative", "random", "nope", "causal-nope", "learned-0.2")
PUBLISHED_OF = {label: label.removesuffix("-literal") for label in AS_RELEASED}
"""Label of an encoding as released -> the same as published."""

REFERENCES = ("2d-fixed", "2d-fixed-literal")
"""Candidates for the reference of attention maps; the first that was trained is used. The paper used the second."""

ATTENTION_MAP_VARIANTS = (
    "2d-fixed", "learned-0.1", "learned-0.2", "learned-1", "learned-2", "1d-fixed", "rope", "relative", "random",
    "nope", "causal-nope",
)  # fmt: skip
ALIGNED_VARIANTS = ("learned-0.2", "learned-2")
"""Learned tables that are drawn before and after alignment."""
LAYOUT_VARIANTS = ("1d-fixed", "learned-0.1", "learned-0.2", "learned-1", "learned-2")


def is_named(label: str) -> bool:
    """Return True for a label of the study, whose view is part of its definition; False for the text of a scheme."""
    plain = {plain_name(name) for name in VARIANTS}
    return label in AS_RELEASED or plain_name(label) in plain or label.startswith(PREFIX)


def variant(label: str, others: Sequence[str] | None = None) -> Variant:
    """The variant of a label: one of the study's names, ``learned-SIGMA``, or any scheme of the catalog as text.

    Args:
        label: The label.
        others: Labels that the error message of another study lists; None for those of this study.

    Returns:
        The variant.

    Raises:
        ValueError: The label is unknown; the message has the nearest name.
    """
    known = {**VARIANTS, **AS_RELEASED}
    if label in known:
        return known[label]
    plain = {name.replace("-", ""): name for name in VARIANTS}
    if label.lower().replace("-", "").replace("_", "") in plain:  # RoPE is the variant rope, not another model
        return known[plain[label.lower().replace("-", "").replace("_", "")]]
    if label.startswith(PREFIX):
        return Variant(scheme="Learned", options={"sigma": sigma_of(label)})
    parsed = scheme_text.parse_variant(label, label, [*known, "learned-0.2"] if others is None else others)
    texts = {name: scheme_text.Specification(each.scheme, each.options) for name, each in VARIANTS.items()}
    like = named_like(parsed, texts)
    if like is None:
        return Variant(scheme=parsed.scheme, options=parsed.options)
    if is_same(parsed, texts[like]):
        return VARIANTS[like]
    return msgspec.structs.replace(VARIANTS[like], options=parsed.options)
