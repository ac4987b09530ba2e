"""LengthRoPE: rotary position embedding whose frequencies depend on the length of the text.

    theta_i = theta_i(s),   s = 1 + largest position among the queries and keys of a sample

Dynamic NTK (emozilla 2023) and LongRoPE (Ding et al. 2024) are such schedules. Each sample of a batch has its own s,
and nothing is remembered of earlier texts.

A cache holds keys that were rotated for an earlier s. When the frequencies change there are two meanings of "exact":

    exact="model"  The cache reads its text again. Logits equal those of a full pass over the text so far.
    exact="keys"   Cached keys are rotated by p (theta_i(new s) - theta_i(old s)). Keys of the first layer equal those
                   of a full pass. Deeper keys were computed from tokens that attended with the earlier frequencies, so
                   they do not.

It is not in the catalogue, because the rotation of a token depends on the other tokens of its text. For texts of one
length it is RoPE (``LengthRoPE.rope``), which the contract checks.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from typing_extensions import override

from posenc.frequencies import CITATIONS, Frequencies
from posenc.kernels.rotary import Pairing, Rotation, prepare_rotation, rotate, with_head_axis
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme
from posenc.schemes.rope import RoPE

SHORTEST = 2
"""Shortest length that a schedule is asked for, in tokens."""


class LengthRoPE(Scheme):
    """RoPE with a schedule that depends on the length s of each text, as dynamic NTK and LongRoPE.

        q_m -> R_m(s) q_m,   k_n -> R_n(s) k_n,   s = 1 + largest position of the sample

    Args:
        head_dim: Number d of channels that rotate, even.
        frequencies: Function from a length s in tokens to ``d / 2`` frequencies in radians per unit of position, as
            ``lambda s: dynamic_ntk(32, length=s, trained=4096)``. It is called once for each different s of a batch,
            with s of at least 2.
        of: Width D of the head, if only the first d channels rotate. Default d.
        pairing: Channels that rotate together: "interleaved" (default), "half" or "across".
        exact: What decoding with a cache keeps exact when the frequencies change: "model" (default) reads the text
            again, "keys" rotates the cached keys (see the module).
        doubling_from: Length L from which s grows in steps: longer texts count as 2 L, 4 L, 8 L .. tokens, so that the
            frequencies seldom change. Default None: every s has its own frequencies.

    Raises:
        ValueError: If ``frequencies`` is not a function of a length, ``exact`` or ``pairing`` is unknown, or
            ``head_dim`` is odd.

    Example:
        >>> import torch
        >>> from posenc import LengthRoPE, sequence
        >>> from posenc.frequencies import dynamic_ntk
        >>> rope = LengthRoPE(8, lambda s: dynamic_ntk(4, length=s, trained=16))
        >>> ids = torch.stack([torch.arange(20), torch.arange(20) - 10]).clamp(min=0)  # 20 tokens, and 10 after padding
        >>> [round(theta[-1] * 1000, 3) for theta in rope.for_texts(sequence(ids)).theta]
        [0.8, 1.0]

    References:
        emozilla 2023, "Dynamically Scaled RoPE", as given by Peng et al. 2023, "YaRN", arXiv 2309.00071, section 3.3;
        Ding et al. 2024, "LongRoPE", arXiv 2402.13753.
    """

    cite = CITATIONS["dynamic_ntk"] + "\n" + CITATIONS["longrope"]
    conventions = ("pairing",)

    def __init__(
        self,
        head_dim: int,
        frequencies: Callable[[int], Tensor | Frequencies],
        *,
        of: int | None = None,
        pairing: Pairing = "interleaved",
        exact: Literal["model", "keys"] = "model",
        doubling_from: int | None = None,
    ) -> None:
        super().__init__()
        if not callable(frequencies):
            raise ValueError(
                f"LengthRoPE takes a function from a length to frequencies; got {type(frequencies).__name__}. Write "
                f"lambda s: dynamic_ntk({head_dim // 2}, length=s, trained=4096), or RoPE(.., frequencies=..) for one "
                "schedule."
            )
        if exact not in ("model", "keys"):
            raise ValueError(f"decoding keeps 'model' or 'keys' exact; got exact={exact!r}.")
        if doubling_from is not None and doubling_from < SHORTEST:
            raise ValueError(f"`doubling_from` is a number of tokens, at least {SHORTEST}; got {doubling_from}.")
        self.head_dim, self.of, self.frequencies, self.exact = head_dim, of or head_dim, frequencies, exact
        self.pairing: Pairing = pairing
        self.doubling_from = doubling_from
        self.theta: tuple[tuple[float, ...], ...] = ()
        """Frequencies of each sample, or one row for all; empty until the texts are known (``for_texts``)."""
        self.attention_factors: tuple[float, ...] = ()
        rope = self.rope(doubling_from or SHORTEST)  # refuses a wrong width, pairing or number of frequencies
        self.claims = dataclasses.replace(rope.claims, translation="none", isometric=False, cacheable=False)

    @property
    @override
    def head_width(self) -> int:
        return self.of

    def rope(self, length: int) -> RoPE:
        """The rotation of texts of one length.

        Args:
            length: Length s in tokens.

        Returns:
            RoPE with the frequencies of that length.

        Raises:
            ValueError: If the function returns no frequencies, or not as many as there are pairs.
        """
        length = max(length, SHORTEST)
        if self.doubling_from is not None and length > self.doubling_from:
            length = self.doubling_from * 2 ** math.ceil(math.log2(length / self.doubling_from) - 1e-12)
        frequencies = self.frequencies(length)
        if frequencies is None:
            raise ValueError(f"the function of LengthRoPE returned None for a length of {length}. Return frequencies.")
        return RoPE(self.head_dim, of=self.of, frequencies=frequencies, pairing=self.pairing)

    @override
    def for_texts(self, *positions: Positions) -> LengthRoPE:
        if self.theta:
            return self
        lengths = torch.stack(torch.broadcast_tensors(*(_lengths(self._take(pos)) for pos in positions))).amax(0)
        wanted = lengths.reshape(-1).tolist()
        wanted = wanted[:1] if len(set(wanted)) == 1 else wanted
        ropes = {length: self.rope(length) for length in set(wanted)}
        fixed = copy.copy(self)
        fixed.theta = tuple(ropes[length].theta for length in wanted)
        fixed.attention_factors = tuple(ropes[length].attention_factor for length in wanted)
        fixed.claims = self._fixed_claims(all(factor == 1 for factor in fixed.attention_factors))
        return fixed

    def _fixed_claims(self, isometric: bool) -> Claims:
        return dataclasses.replace(self.claims, translation="exact", isometric=isometric, cacheable=True)

    @override
    def prepare(self, pos: Positions) -> Rotation:
        if not self.theta:
            return self.for_texts(pos).prepare(pos)
        self._take(pos)
        p = with_head_axis(pos.precise(), pos)
        theta = torch.tensor(self.theta, dtype=p.dtype, device=p.device)
        theta = theta[0] if len(theta) == 1 else theta[:, None, None]  # (n,) or (B, 1, 1, n)
        size, *others = set(self.attention_factors)
        if others:
            size = torch.tensor(self.attention_factors, dtype=p.dtype, device=p.device)[:, None, None, None]
        return prepare_rotation(p * theta, pos, self.pairing, size=size, of=self.of)

    @override
    def transform(self, x: Tensor, where: Rotation, site: Literal["q", "k", "v", "o"]) -> Tensor:
        return rotate(x, where) if site in ("q", "k") else x

    @override
    def rerotate(self, x: Tensor, where_from: Rotation, where_to: Rotation, site: Literal["k", "v"] = "k") -> Tensor:
        """Rotate a cached key from its old position and frequencies to the new ones."""
        return rotate(x, where_to.after(where_from)) if site == "k" else x


def _lengths(pos: Positions) -> Tensor:
    """Length in tokens of each sample, ``()`` or ``(B,)``: 1 + its largest position, 0 without a position."""
    last = pos.coords[..., 0].detach()
    if pos.placed is not None:
        last = last.expand(torch.broadcast_shapes(last.shape, pos.placed.shape)).masked_fill(~pos.placed, -1)
    if not pos.count:
        return last.new_zeros(last.shape[:-1], dtype=torch.long)
    return (last.amax(-1).floor() + 1).long()
