"""Positions of tokens by segments, read off the tokens: which tokens end a segment, and how many places one has.

Source: He et al. 2024, arXiv 2401.16421, section 3.2 (``posenc.BiPE``); ``posenc.segments`` counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch
from jaxtyping import Int
from torch import Tensor

from posenc.positions import Positions
from posenc.segment_positions import LONGEST, segments
from posenc.whole_numbers import are_whole


class SegmentRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rule that gives each token the number of its segment and its place in it.

    Attributes:
        separators: Numbers of the tokens that end a segment.
        places: Number of places of a segment; the tokens after them share the last.

    Example:
        >>> import torch
        >>> from posenc.models.segment_rule import SegmentRule
        >>> SegmentRule(separators=(13,)).positions(torch.tensor([[5, 8, 13, 6]])).coords.tolist()
        [[[0, 0], [0, 1], [0, 2], [1, 0]]]
    """

    separators: tuple[int, ...]
    places: int = LONGEST

    def __post_init__(self) -> None:
        given = self.separators if isinstance(self.separators, tuple | list) else (self.separators,)
        if given is not self.separators or not given or not are_whole(*given, least=0) or not are_whole(self.places):
            raise ValueError(
                "segments end at one kind of token at least, given by its whole number, and have one place at least; "
                f"got separators={self.separators} and places={self.places}. Write SegmentRule(separators=(13,))."
            )

    def positions(self, tokens: Int[Tensor, "B N"]) -> Positions:
        """Positions ``(B, N, 2)`` of texts from their first token, on the axes (segment, place)."""
        return segments(self._ends(tokens), longest=self.places)

    def following(self, tokens: Int[Tensor, "B N"], last: Positions, last_tokens: Int[Tensor, "b 1"]) -> Positions:
        """Positions of the next tokens.

        Args:
            tokens: Next tokens ``(B, N)``.
            last: Position of the last token before them, ``(1, 2)`` or ``(b, 1, 2)``.
            last_tokens: Last token before them, ``(b, 1)`` with b of 1 or B.

        Returns:
            Positions ``(B, N, 2)``.
        """
        both = torch.cat([last_tokens.expand(len(tokens), 1), tokens], 1)
        segment, place = segments(self._ends(both), longest=both.shape[1]).coords.unbind(-1)
        place = place + last.coords[..., 1].where(segment == 0, 0)
        coords = torch.stack([segment + last.coords[..., 0], place.clamp(max=self.places - 1)], -1)
        return Positions(coords[:, 1:])

    def spread(self, length: int) -> Positions:
        """Positions of a text of a length with every segment and every place that such a text can have."""
        at = torch.arange(length)
        return Positions(torch.stack([at, at.clamp(max=self.places - 1)], -1))

    def _ends(self, tokens: Tensor) -> Tensor:
        return torch.isin(tokens, tokens.new_tensor(self.separators))


def line_ends(vocabulary: Sequence[str]) -> tuple[int, ...]:
    """Numbers of the tokens of a vocabulary whose text contains a line end.

    Args:
        vocabulary: Text of each token.

    Returns:
        The numbers.
    """
    return tuple(number for number, text in enumerate(vocabulary) if "\n" in text)
