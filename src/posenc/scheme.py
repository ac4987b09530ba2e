"""The abstraction: a scheme reads positions once and touches the network at a few named sites.

``where = scheme.prepare(pos)`` makes whatever depends on positions alone, once a forward pass; every layer that shares
the scheme shares it. ``pair = scheme.relate(where_q, where_k)`` makes what depends on a pair. The hooks of the sites
then take ``where`` or ``pair`` and nothing else of positions. A hook that a scheme does not use is the identity.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.claims import Claims as Claims
from posenc.claims import Interval, Read
from posenc.claims import Site as Site
from posenc.positions import Positions, readable

Where = Any
Pair = Any
STATE, STATE_VERSION = "posenc", 1
"""Under which name a state_dict says what saved it, and the newest form of that."""


class Head(int):
    """The number of a head, which knows of how many it is one."""

    count: int

    def __new__(cls, number: int, count: int) -> Head:
        head = super().__new__(cls, number)
        head.count = count
        return head

    def among(self, own: int) -> int:
        """Which of a scheme's ``own`` heads it takes, as ``per_head`` deals them out: neighbours share one."""
        return self // (self.count // own)


@dataclasses.dataclass(frozen=True)
class At:
    """One query and one key of a head, for scalar definitions: whole rows, and the indices ``i`` and ``j`` in them.

    q ``(Q, D)`` already carries the softmax scale, k ``(K, D)`` is as a cache would hold it, x ``(K, dim)`` is the
    block's input of the keys or None, seen ``(Q, K)`` says which keys count; positions are ``(Q, P)`` and ``(K, P)``
    in float64.
    """

    q: Tensor
    k: Tensor
    x: Tensor | None
    seen: Tensor
    q_pos: Tensor
    k_pos: Tensor
    i: int
    j: int
    head: Head


class Scheme(nn.Module, abc.ABC):
    """A way of telling a network where its tokens are. Subclass it once; a finished scheme is never subclassed.

    A subclass sets ``self.claims`` in its constructor, lists ``examples`` (constructor arguments; every option in
    one of them), writes ``prepare`` and the hooks of its sites, and beside each hook its scalar definition
    ``define_*``: the paper's formula for one token or one pair, loops allowed, float64.
    """

    cite: ClassVar[str] = ""
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    wide: ClassVar[frozenset[str]] = frozenset()
    """Own parameters that no cast makes narrower than float32: trained angles, which bfloat16 would round by turns."""
    conventions: ClassVar[tuple[str, ...]] = ()
    """Attributes that say how the same weights are read: a state_dict that was saved under others is refused."""
    bias_reads: frozenset[Read] = frozenset({"q", "k", "kept"})
    """What ``bias`` looks at besides the pair, q for more than its heads and dtype. Without any, layers that share the
    scheme share its bias."""
    draws: tuple[str, ...] = ()
    """Buffers that count, of a scheme that draws anew at every ``prepare``: at the same count it draws the same."""
    faults: Mapping[str, str] = MappingProxyType({})
    """Checks of the contract that it fails, as code does that it reproduces, and why: ``{"state.some_check": "why"}``.
    They must fail."""
    claims: Claims

    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        """torch's own; trained angles are not narrow either where the default dtype is."""
        if name in self.wide and param is not None and _narrow(param):
            param = nn.Parameter(param.detach().float(), param.requires_grad)
        super().register_parameter(name, param)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True):  # torch's own hook behind .to() and .half()
        wide = {id(t) for name in self.wide for t in _with_gradient(getattr(self, name, None))}

        def apply(t: Tensor) -> Tensor:
            done = fn(t)
            return t.to(done.device, torch.float32) if id(t) in wide and _narrow(done) else done

        return super()._apply(apply, recurse)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        beside = getattr(destination, "_metadata", {}).get(prefix[:-1])  # where torch keeps versions of modules
        if beside is not None:
            beside[STATE] = {"version": STATE_VERSION, "scheme": type(self).__name__} | self._conventions()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any, unexpected_keys: Any,
        error_msgs: Any,
    ) -> None:  # fmt: skip
        self._refuse_state(local_metadata.get(STATE, {}))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _refuse_state(self, saved: Mapping[str, Any]) -> None:
        name, own = type(self).__name__, self._conventions()
        if saved.get("version", 0) > STATE_VERSION:
            raise ValueError(
                f"this state of {saved.get('scheme', name)} has version {saved['version']}, and this posenc reads up "
                f"to {STATE_VERSION}. Load it with the newer posenc that saved it: pip install --upgrade posenc"
            )
        for said, value in own.items() if saved.get("scheme", name) == name else ():
            if saved.get(said, value) != value:
                raise ValueError(
                    f"this state was saved by {name} with {said}={saved[said]!r}, and this one has {said}={value!r}, "
                    f"which reads the same weights otherwise. Build it with {said}={saved[said]!r}."
                )

    def _conventions(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.conventions}

    def forward(self, *_: Any) -> Tensor:
        """A scheme is not called: it touches the network at its sites."""
        raise ValueError(
            f"{type(self).__name__} is not called like a layer: use attention(q, k, v, scheme=..., q_pos=...), or "
            "scheme.prepare(pos) and its hooks."
        )

    # what depends on positions alone -------------------------------------------------------------------------------
    @abc.abstractmethod
    def prepare(self, pos: Positions) -> Where:
        """What the hooks need to know of ``pos``, as a plain value; checks the positions (ValueError)."""

    def relate(self, where_q: Where, where_k: Where) -> Pair:
        """What the hooks need to know of each (query, key); distance is always ``k_pos - q_pos``."""
        return None

    @property
    def head_width(self) -> int | None:
        """The width of the heads that it acts on, or None for any."""
        return None

    # the sites, each the identity ----------------------------------------------------------------------------------
    @property
    def out_dim(self) -> int:
        """The width of ``embed``'s rows."""
        raise ValueError(self._nothing_to_embed())

    def embed(self, where: Where) -> Float[Tensor, "*B N dim"]:
        """Rows ``(.., N, out_dim)`` that stand for positions; the model owns any projection and the placement."""
        raise ValueError(self._nothing_to_embed())

    def transform(self, x: Tensor, where: Where, site: Literal["q", "k", "v", "o"]) -> Tensor:
        """A map of queries, keys, values or head outputs ``(B, H, N, D)``; it may widen q and k."""
        return x

    def rerotate(self, x: Tensor, where_from: Where, where_to: Where, site: Literal["k", "v"] = "k") -> Tensor:
        """Cached keys (or values) ``(B, H, K, D)``, transformed at one place, as if transformed at another.

        For caches that drop or insert tokens: what costs less than making the keys again. Raises ValueError where the
        scheme cannot.
        """
        if site not in self.claims.sites:
            return x
        raise ValueError(
            f"{type(self).__name__} cannot move {'keys' if site == 'k' else 'values'} that are cached as transformed. "
            "Cache them as projected, and transform them at the new positions."
        )

    def keep(self, x: Tensor, where: Where) -> Tensor | None:
        """What a bias reads of each key's row of the block's input ``(B, K, dim)``, such as a gate, ``(B, H, K, ..)``.

        While decoding it is appended to a cache as keys and values are.
        """
        return None

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pair, seen: Tensor | None) -> Tensor | None:
        """What is added to the logits, broadcastable to ``(B, H, Q, K)``.

        ``q`` carries the softmax scale; ``k`` is as a cache holds it, with the heads of keys, which several of q's may
        share (``posenc.kernels.groups.logits_of_groups``); ``seen`` is the scheme's mask and the caller's together, for
        a bias that counts keys.
        """
        return None

    def value_bias(self, weights: Tensor, pair: Pair) -> Tensor | None:
        """What is added to the head outputs ``(B, H, Q, D)``, given the attention weights ``(B, H, Q, K)``."""
        return None

    def mask(self, pair: Pair) -> Tensor | None:
        """True where a query may look at a key, broadcastable to ``(B, H, Q, K)``."""
        return None

    def mix(self, x: Tensor, where: Where) -> Tensor:
        """A map of a block's output ``(B, N, dim)`` that looks at neighbours, called after its residual."""
        return x

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pair) -> Callable[..., Tensor] | None:
        """``bias`` and ``mask`` as one FlexAttention score_mod, where they can be one."""
        return None

    # scalar definitions --------------------------------------------------------------------------------------------
    def define_embed(self, p: Tensor) -> Tensor:
        """One row from one position ``(P,)``."""
        raise NotImplementedError(self._no_formula("embed", "define_embed(self, p)"))

    def define_rows(self, p: Tensor) -> Tensor:
        """All rows of one sample at ``(N, P)``: ``define_embed`` of each, unless a row depends on the others."""
        return torch.stack([self.define_embed(one) for one in p])

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        """One head's vector ``(D,)`` of the token at ``p``, mapped at a site; ``head.among(h)`` of h own heads."""
        raise NotImplementedError(self._no_formula(site, "define_transform(self, x, p, site, head)"))

    def define_bias(self, at: At) -> Tensor:
        """What one pair's logit gains."""
        raise NotImplementedError(self._no_formula("bias", "define_bias(self, at)"))

    def define_value_bias(self, at: At) -> Tensor:
        """The vector ``(D,)`` added to value ``j`` as query ``i`` sees it."""
        raise NotImplementedError(self._no_formula("value_bias", "define_value_bias(self, at)"))

    def define_mask(self, at: At) -> bool:
        """Whether query ``i`` may look at key ``j``."""
        raise NotImplementedError(self._no_formula("mask", "define_mask(self, at)"))

    def define_mix(self, x: Tensor, pos: Positions, n: int) -> Tensor:
        """Row ``n`` ``(dim,)`` of one sample ``(N, dim)`` after mixing; ``pos`` is a full grid, ``pos.lattice``."""
        raise NotImplementedError(self._no_formula("mix", "define_mix(self, x, pos, n)"))

    # at the door ---------------------------------------------------------------------------------------------------
    def _nothing_to_embed(self) -> str:
        sites = ", ".join(sorted(self.claims.sites)) or "no site"
        return (
            f"{type(self).__name__} embeds nothing: it acts at {sites}. Ask first whether 'embed' is in claims.sites."
        )

    def _no_formula(self, site: str, write: str) -> str:
        return f"{type(self).__name__} claims the site {site} and has no formula beside its code: write {write}"

    def _take(self, pos: Positions) -> Positions:
        """``pos`` if this scheme can read it: the right number of axes, inside its range."""
        name, axes = type(self).__name__, self.claims.axes
        if not isinstance(pos, Positions):
            raise ValueError(
                f"{name}.prepare takes positions; got {type(pos).__name__}. Write prepare(sequence(n)), "
                "prepare(grid(h, w)) or prepare(Positions(your_tensor))."
            )
        if axes is not None and pos.axes != axes:
            raise ValueError(
                f"{name} here reads {axes} axes a position; these positions have {pos.axes}. "
                f"Build it for axes={pos.axes} if it can, or choose another scheme: posenc list --axes {pos.axes}"
            )
        own = next(itertools.chain(self.parameters(), self.buffers()), None) if readable(pos.coords) else None
        if own is not None and own.device != pos.coords.device:
            raise ValueError(
                f"this {name} is on {own.device} and the positions on {pos.coords.device}. Write "
                f"pos.to({str(own.device)!r}), or where a model makes them scheme.to({str(pos.coords.device)!r})."
            )
        if self.claims.range is not None and readable(pos.coords):
            self._refuse_outside(pos)
        return pos

    def _whole(self, pos: Positions) -> Positions:
        """The positions, taken; refuses those between the rows of a table."""
        pos = self._take(pos)
        if pos.coords.is_floating_point() and readable(pos.coords):
            coords = _placed(pos)
            between = coords != coords.round()
            if bool(between.any()):
                raise ValueError(
                    f"{type(self).__name__} counts in whole positions; position {coords[between][0].item():g} lies "
                    "between two. Round them, or use a scheme for real positions: posenc list"
                )
        return pos

    def _rows(self, pos: Positions) -> Tensor:
        """Whole positions on one axis as row numbers ``(.., N)``."""
        self._whole(pos)
        return pos.coords[..., 0].long()

    def _refuse_outside(self, pos: Positions) -> None:
        coords = _placed(pos).detach()
        if coords.numel() == 0:
            return
        limits = self.claims.limits(pos.axes)
        if len(set(limits)) == 1:  # one look at all of them is faster
            self._refuse_beyond(coords, limits[0], "")
            return
        for axis, of_axis in enumerate(limits):
            self._refuse_beyond(coords[..., axis], of_axis, f" on axis {axis}")

    def _refuse_beyond(self, coords: Tensor, limits: Interval | None, where: str) -> None:
        low, high = (float(end) for end in coords.aminmax())
        if limits is not None and (low < limits[0] or high > limits[1]):
            below = low < limits[0]
            fix = f"Move them there, pos + {limits[0] - low:g}" if below else f"Build it to reach {high:g}"
            raise ValueError(
                f"{type(self).__name__} starts at {limits[0]:g} and stops at {limits[1]:g}{where}; position "
                f"{low if below else high:g} was asked for. {fix}, or use a scheme without a limit: "
                "posenc list --unbounded"
            )


def per_head(values: Tensor, x: Tensor, name: str, *, dim: int = -3) -> Tensor:
    """What a scheme has for each of its h heads, ``(.., h, N, F)``, shaped to meet the H heads of ``x (B, H, N, D)``.

    One head serves all; where H is a multiple of h, neighbours share, as query heads share a key head. dim: where h
    stands in ``values``. Raises ValueError for any other H.
    """
    own, heads = values.shape[dim], x.shape[1]
    if own in (1, heads):
        return values
    if heads % own:
        raise ValueError(
            f"this {name} is built for {own} heads and meets {heads}. Build it with heads={heads}, or with the number "
            "of key heads where query heads share them."
        )
    return values.repeat_interleave(heads // own, dim)


def _with_gradient(t: Tensor | None) -> tuple[Tensor, ...]:
    grad = None if t is None or not t.is_leaf else t.grad
    return () if t is None else (t,) if grad is None else (t, grad)


def _narrow(t: Tensor) -> bool:
    return t.is_floating_point() and t.dtype.itemsize < 4


def _placed(pos: Positions) -> Tensor:
    """The coordinates that stand for a place in any sample, ``(.., P)``."""
    if pos.placed is None:
        return pos.coords
    placed = pos.placed if pos.coords.dim() == 3 or pos.placed.dim() == 1 else pos.placed.any(0)
    return pos.coords[placed.expand(pos.coords.shape[:-1])]
