"""Which keys a token of a text may look at: never made whole, but for some queries at a time.

seen_ij = [j <= i] [j > i - window] [document_j = document_i] [key j is no padding]

``i`` and ``j`` count tokens in their order, not positions: queries are the last of the keys, as in decoding. With
nothing but the first factor this is SDPA's own ``is_causal``, and no mask is made at all.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from posenc.positions import readable


@dataclasses.dataclass(frozen=True, eq=False)
class Seen:
    """The rule, and the tensors that it reads, of the order Q + K.

    queries, keys: how many there are; query ``i`` is key ``keys - queries + i``. document: of each key, ``(K,)`` or
    ``(B, K)``, no two of one number. real: False for padding, shaped alike. window: how many tokens a query sees,
    itself among them.
    """

    queries: int
    keys: int
    document: Tensor | None = None
    real: Tensor | None = None
    window: int | None = None

    @property
    def triangular(self) -> bool:
        """Whether this is the plain causal mask of as many queries as keys."""
        return self.queries == self.keys and self._sees_all_before

    @property
    def _sees_all_before(self) -> bool:
        return self.document is None and self.real is None and (self.window is None or self.window >= self.keys)

    def rows(self, device: torch.device, at: slice = slice(None)) -> Tensor | None:
        """The rule for some queries, ``(at, K)`` or ``(B, 1, at, K)``; None where they see all keys."""
        if self.queries == 1 and self._sees_all_before:
            return None
        key, before = torch.arange(self.keys, device=device), self.keys - self.queries
        query = key[before:][at, None]
        seen = key <= query
        if self.window is not None:
            seen = seen & (key > query - self.window)
        if self.document is not None:
            own = self.document[..., before:][..., at]
            seen = seen & (own[..., :, None] == self.document[..., None, :])
        if self.real is not None:
            seen = seen & self.real[..., None, :]
        return seen[:, None] if seen.dim() == 3 else seen


def begins(numbers: Tensor, before: Tensor | None = None) -> Tensor:
    """True at each token ``(.., N)`` of another number than the one before it, which is ``before (.., 1)`` at first.

    Its running sum numbers documents by their order, so that a number that comes back is another document's.
    """
    return numbers.diff(dim=-1, prepend=numbers[..., :1] if before is None else before) != 0


def hides(mask: Tensor) -> bool:
    """Whether a mask leaves out any key: looked up for one query on a CPU, which in a text mostly sees all that was
    said, and taken for granted where the look would cost more than it saves."""
    return not (readable(mask) and mask.device.type == "cpu" and mask.shape[-2] == 1 and bool(mask.all()))
