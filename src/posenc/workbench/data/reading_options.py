"""Options of the readers of a user's data, as the flags of ``posenc run`` state them."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

Dtype = Literal["bytes", "uint16", "uint32"]
"""Numbers of a file of token ids without a header."""
FeatureChoice = Literal["none", "normals", "colors", "all"]
"""Features of a point beside its coordinates that a model reads."""
Scale = Literal["unit", "keep"]
"""Normalization: each cloud by its own mean and radius ("unit"), or one shift and factor for all clouds ("keep")."""
DTYPES: tuple[Dtype, ...] = get_args(Dtype)


class ReadingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the readers. None is an option that the user does not state.

    Attributes:
        format: Form to read the data as, in place of the one that its name or its files show: the name of a module of
            ``readers`` with hyphens, such as "json-lines".
        field: Name of the field of a JSON Lines file that holds the text; None for the only text field.
        dtype: Type of the numbers of a ``.bin`` file; None for every other form.
        features: Features of a point beside its coordinates; None for "none".
        scale: Normalization of clouds; None for "unit".
    """

    format: str | None = None
    field: str | None = None
    dtype: Dtype | None = None
    features: FeatureChoice | None = None
    scale: Scale | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The stated options of a reader by name; "format" chooses the reader and is left out."""
        stated = msgspec.structs.asdict(self).items()
        return {name: value for name, value in stated if value is not None and name != "format"}
