"""`Recordings`: time series of the same channels, as every reader returns them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from posenc.workbench.memory import require_memory

CHUNK_VALUES = 2**24
"""Number of values of a recording that are processed at a time, so that a memory-mapped one need not fit in memory."""
DROPPED, FILLED = "Left out (constant or not finite)", "Filled linearly in time"
"""First words of the sentences on channels that were dropped, and on values that were filled."""
CONSTANT_TOLERANCE = 1e-12
"""A channel counts as constant where its range is at most this part of its largest absolute value."""
SUBJECT = re.compile(r"sub-[0-9a-z]+|(?:sub|subj|subject|participant|patient|s|p)[-_ ]?\d+(?![0-9a-z])", re.IGNORECASE)
"""Subject at the start of the name of a recording."""


@dataclasses.dataclass(frozen=True, eq=False)
class Recordings:
    """Recordings of the same channels.

    Attributes:
        series: One ``(channel, time)`` array per recording, in memory or memory-mapped; the numbers of times may
            differ.
        names: Names of the recordings.
        channels: Names of the channels; by default "channel 1" and so on.
        coordinates: ``(channel, axes)`` float64 positions of the channels, or None.
        modules: Name of each channel's module, or None.
        subjects: Subject of each recording; by default ``subject_from_name``, where capitals make no difference.
        dropped: Names of the channels that were left out.
        remarks: Sentences on what else was changed in reading: times left out, values filled, channels reordered.
        blocks: Number of blocks that each recording of a single subject was cut into; None for whole recordings.

    Raises:
        ValueError: The numbers of channels, names or coordinates differ, a name occurs twice, a channel lacks a module
            where others have one, or there are fewer than two channels.
    """

    series: tuple[np.ndarray, ...]
    names: tuple[str, ...]
    channels: tuple[str, ...] = ()
    coordinates: np.ndarray | None = None
    modules: tuple[str, ...] | None = None
    subjects: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    blocks: int | None = None

    def __post_init__(self) -> None:
        _check_shapes(self.series, self.names)
        count = len(self.series[0])
        if not self.channels:
            object.__setattr__(self, "channels", tuple(f"channel {number + 1}" for number in range(count)))
        if not self.subjects:
            object.__setattr__(self, "subjects", one_spelling(map(subject_from_name, self.names)))
        for field_name, owner, length, needed in (
            ("names", "recording", len(self.names), len(self.series)),
            ("subjects", "recording", len(self.subjects), len(self.series)),
            ("channels", "channel", len(self.channels), count),
            ("coordinates", "channel", count if self.coordinates is None else len(self.coordinates), count),
            ("modules", "channel", count if self.modules is None else len(self.modules), count),
        ):
            if length != needed:
                raise ValueError(f"{field_name} has one entry per {owner}: {needed} are needed; got {length}.")
        for field_name, entries in (("channels", self.channels), ("names", self.names)):
            if twice := [entry for entry in dict.fromkeys(entries) if entries.count(entry) > 1]:
                raise ValueError(f"{field_name} has {twice[0]!r} more than once. Give each a name of its own.")
        if self.modules is not None and "" in self.modules:
            raise ValueError(
                f"each channel needs a module, and {self.channels[self.modules.index('')]!r} has none. Give channels "
                "without a module one of their own, such as 'none', or leave the modules out."
            )
        if self.coordinates is not None and (
            self.coordinates.ndim != 2 or not np.isfinite(self.coordinates.astype(np.float64)).all()
        ):
            raise ValueError(
                f"coordinates are finite numbers, one row per channel and one column per axis; got an array of shape "
                f"{self.coordinates.shape}. Leave them out where a channel has no position."
            )

    def __len__(self) -> int:
        return len(self.series)

    @property
    def frames(self) -> int:
        """Number of time points of all recordings."""
        return sum(each.shape[1] for each in self.series)

    @property
    def note(self) -> str:
        """Sentences on the channels that were left out, and on other changes; empty where there are none."""
        dropped = (f"{DROPPED}: {_list_names(self.dropped)}.",) if self.dropped else ()
        return " ".join((*dropped, *self.remarks))

    def take(self, index: Sequence[int]) -> Recordings:
        """Select recordings by index, in this order; the arrays are shared."""
        return dataclasses.replace(
            self,
            series=tuple(self.series[number] for number in index),
            names=tuple(self.names[number] for number in index),
            subjects=tuple(self.subjects[number] for number in index),
        )

    def validated(self, *, drop: bool = False) -> Recordings:
        """These recordings, with every channel finite and not constant in every recording.

        Args:
            drop: Drop all other channels from every recording, and list them in ``dropped``.

        Raises:
            ValueError: A channel is constant or not finite and ``drop`` is False, or fewer than two channels remain.
        """
        bad: dict[int, str] = {}
        for name, series in zip(self.names, self.series, strict=True):
            for number, reason in _unusable_channels(series):
                bad.setdefault(number, f"{reason} in recording {name!r}")
        if not bad:
            return self
        if not drop:
            some = [f"{self.channels[number]!r} {reason}" for number, reason in list(bad.items())[:3]]
            more = f" and {len(bad) - 3} more" * (len(bad) > 3)
            raise ValueError(
                f"channels must vary and be finite at every time; {', '.join(some)}{more}. Correct them, or leave them "
                "out of every recording: --drop. (posenc run leaves out times without a value, or fills them: --fill "
                "linear.)"
            )
        return self._without(sorted(bad))

    def _without(self, bad: Sequence[int]) -> Recordings:
        good = np.setdiff1d(np.arange(len(self.channels)), bad)
        if len(good) < 2:
            raise ValueError(
                f"{len(bad)} of {len(self.channels)} channels are constant or not finite; at least two must be left."
            )
        needed = sum(each.nbytes for each in self.series if isinstance(each, np.memmap))
        require_memory(needed, "a copy of recordings without some channels", "Leave them out of the file instead.")
        return Recordings(
            tuple(each[good] for each in self.series),
            self.names,
            tuple(self.channels[number] for number in good),
            None if self.coordinates is None else self.coordinates[good],
            None if self.modules is None else tuple(self.modules[number] for number in good),
            self.subjects,
            (*self.dropped, *(self.channels[number] for number in bad)),
            self.remarks,
            self.blocks,
        )


def subject_from_name(name: str) -> str:
    """Subject of a recording: ``sub-LABEL`` (BIDS) or ``subject01`` at the start of its name, else the whole name."""
    match = SUBJECT.match(name)
    return match[0] if match else name


def one_spelling(subjects: Iterable[str]) -> tuple[str, ...]:
    """Subjects in the spelling that comes first, if they differ by capitals alone."""
    first: dict[str, str] = {}
    return tuple(first.setdefault(each.lower(), each) for each in subjects)


def own_subjects_note(names: Sequence[str], unnamed: Sequence[str], remedy: str, noun: str) -> tuple[str, ...]:
    """Say which recordings count as a subject each, because nothing states whose they are.

    Args:
        names: Names of all recordings.
        unnamed: Those of the recordings whose subject is not stated.
        remedy: End of the sentence: how to name the subject.
        noun: Word for a recording, such as "file".

    Returns:
        A sentence, or none.
    """
    if not unnamed or len(names) < 2:
        return ()
    if len(unnamed) == len(names):
        return (f"Each {noun} counts as a subject. If one has several, {remedy}",)
    return (f"Counted as a subject each: {_list_names(unnamed)}. If one has several, {remedy}",)


def without_subject(names: Sequence[str]) -> list[str]:
    """Names that do not begin with a subject."""
    return [name for name in names if not SUBJECT.match(name)]


def _check_shapes(series: Sequence[np.ndarray], names: Sequence[str]) -> None:
    if not series:
        raise ValueError("there is no recording. Give at least one, (channel, time).")
    for name, each in zip(names, series, strict=False):
        if each.ndim != 2 or each.dtype.kind not in "iuf":
            raise ValueError(
                f"recording {name!r} is an array (channel, time) of real numbers; got {each.dtype} of shape "
                f"{each.shape}."
            )
        if len(each) != len(series[0]):
            raise ValueError(
                f"recordings are of the same channels; {names[0]!r} has {len(series[0])} and {name!r} has {len(each)}. "
                "Leave out the channels that some recordings lack."
            )
    if len(series[0]) < 2 or min(each.shape[1] for each in series) < 2:
        raise ValueError(
            "recordings have at least two channels and two times each; got (channel, time) "
            f"{min((each.shape for each in series), key=min)}. Are the axes swapped?"
        )


def _unusable_channels(series: np.ndarray) -> Iterator[tuple[int, str]]:
    """Channels that cannot be standardized, with the reason."""
    step = max(1, CHUNK_VALUES // series.shape[1])
    for start in range(0, len(series), step):
        part = np.asarray(series[start : start + step])
        high, low = part.max(1).astype(np.float64), part.min(1).astype(np.float64)
        finite = np.isfinite(high) & np.isfinite(low)  # nan and infinity both appear in the extremes
        with np.errstate(invalid="ignore"):
            constant = finite & (high - low <= CONSTANT_TOLERANCE * np.maximum(abs(high), abs(low)))
        for number in np.flatnonzero(~finite | constant):
            yield start + int(number), "is constant" if finite[number] else "is not finite"


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
