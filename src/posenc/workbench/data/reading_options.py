"""Options of the readers of a user's data, as the flags of ``posenc run`` state them."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from shlex import quote
from typing import Any, Literal, get_args

import msgspec

from posenc.workbench.files.user_files import UserFileError

Dtype = Literal["bytes", "uint16", "uint32"]
"""Numbers of a file of token ids without a header."""
FeatureChoice = Literal["none", "normals", "colors", "all"]
"""Features of a point beside its coordinates that a model reads."""
Scale = Literal["unit", "keep"]
"""Normalization: each cloud by its own mean and radius ("unit"), or one shift and factor for all clouds ("keep")."""
TimeUnit = Literal["second", "minute", "hour", "day", "week", "month", "year"]
"""Unit of times that are numbers."""
Fit = Literal["crop", "pad", "resize"]
"""Preprocessing to a square image: crop its middle, pad it with a border, or resize it to another aspect ratio."""
DTYPES: tuple[Dtype, ...] = get_args(Dtype)


class ReadingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the readers. None is an option that the user does not state.

    Attributes:
        format: Form to read the data as, in place of the one that its name or its files show: the name of a module of
            ``readers`` with hyphens, such as "json-lines".
        labels: CSV with the labels of the images of a folder: a path, or a name in the folder.
        size: Side of the images in pixels; None for that of the study.
        fit: Preprocessing of images to squares; None for "crop".
        background: Color behind transparent pixels and of the border: "white", "black", "gray" or "#rrggbb"; None for
            "white".
        field: Name of the field of a JSON Lines file that holds the text; None for the only text field.
        dtype: Type of the numbers of a ``.bin`` file; None for every other form.
        features: Features beside the coordinates: of a point of a cloud, "none" (or None), "normals", "colors" or
            "all"; of a row of a table, columns divided by commas, "none", or "all" (or None).
        scale: Normalization of clouds; None for "unit".
        val: Path of a second text, which is for testing; None for none.
        tokenizer: "bytes", "characters", "words", "words:2000", or the path of a ``tokenizer.json``; None for
            characters.
        time: Column of a table that holds the times; None for the one that its name shows, in a table of series, and
            for no times, in a table of places.
        id: Column with the names of the series; None for the one that its name shows, if any.
        target: Columns with the values, divided by commas; None for those that their names or numbers show. Of places,
            the one column to predict; None for the only one of numbers that has no other use.
        unit: Unit of times that are numbers; None for dates.
        coordinates: Columns with the coordinates of places, divided by commas; None for those that their names show.
        geometry: Kind of the coordinates, "sphere", "plane" or "space"; None for the one that their names show.
        groups: Column whose equal values stay on one side of each split; None for no groups.
    """

    format: str | None = None
    labels: str | None = None
    size: int | None = None
    fit: Fit | None = None
    background: str | None = None
    field: str | None = None
    dtype: Dtype | None = None
    features: str | None = None
    scale: Scale | None = None
    val: str | None = None
    tokenizer: str | None = None
    time: str | None = None
    id: str | None = None
    target: str | None = None
    unit: TimeUnit | None = None
    coordinates: str | None = None
    geometry: str | None = None
    groups: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The stated options of a reader by name; "format" chooses the reader and is left out."""
        return {name: value for name, value in self.plain.items() if name != "format"}

    @property
    def plain(self) -> dict[str, Any]:
        """All stated options by name, as plain JSON."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}

    @property
    def flags(self) -> str:
        """The stated options as flags of a command, such as "--size 64 --fit pad"; "" without any."""
        return " ".join(f"--{name} {quote(str(value))}" for name, value in self.plain.items())


NO_OPTIONS = ReadingOptions()


def refuse_other_options(path: Path, form: str, reason: str, takes: Collection[str], options: ReadingOptions) -> None:
    """Check that the stated options are for the form of a path.

    Args:
        path: File or folder.
        form: Form that it is read as.
        reason: Reason for the form.
        takes: Names of the options of the form.
        options: The stated options.

    Raises:
        UserFileError: An option is for another form.
    """
    for name, value in options.given.items():
        if name not in takes:
            raise UserFileError(f"--{name} {value} is not for {path}, which is read as {form}: {reason}. Leave it out.")
