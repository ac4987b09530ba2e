"""What decoding keeps of the tokens before: keys and values as transformed, and what a bias reads of their rows.

Memory is taken ahead and doubled when it is full, so a step copies nothing that is there, and dropping the oldest
tokens moves nothing. A cache knows which schemes made it: keys that were made with another scheme, another schedule of
frequencies or other trained numbers are refused; ``move`` makes them those of the new one, where ``rerotate`` can.
Keys that other weights of the model made are refused too; what is written through ``.data`` passes unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.kernels.seen import begins
from posenc.models.makers import Maker, Written, layers_of, marks, refuse_unfaithful, weights_of
from posenc.positions import Positions
from posenc.scheme import Scheme


class Growing:
    """A tensor that grows along one axis, in memory that is taken ahead. dim: the axis, counted from the end."""

    def __init__(self, dim: int, room: int) -> None:
        self.dim, self.room, self.begin = dim, room, 0
        self.memory: Tensor | None = None

    def put(self, new: Tensor, count: int) -> Tensor:
        """``new`` after the first ``count``, and a view of all of them."""
        more = new.shape[self.dim]
        if self.memory is None or not self._fits(self.memory, new, count + more):
            self.memory = self._taken(new, count, count + more)
        self.memory.narrow(self.dim, self.begin + count, more).copy_(new)
        return self.memory.narrow(self.dim, self.begin, count + more)

    def first(self, count: int) -> Tensor | None:
        return None if self.memory is None else self.memory.narrow(self.dim, self.begin, count)

    def drop(self, start: int, stop: int, count: int) -> None:
        """Forgets some of ``count``; those before them move up, which are none if the oldest or the newest go."""
        if self.memory is None or stop == count:
            return
        if start:
            before = self.memory.narrow(self.dim, self.begin, start).clone()
            self.memory.narrow(self.dim, self.begin + stop - start, start).copy_(before)
        self.begin += stop - start

    def _fits(self, memory: Tensor, new: Tensor, count: int) -> bool:
        frozen = memory.is_inference() and not torch.is_inference_mode_enabled()
        alike = _beside(memory, self.dim) == _beside(new, self.dim) and memory.dtype == new.dtype
        return alike and not frozen and self.begin + count <= memory.shape[self.dim]

    def _taken(self, new: Tensor, count: int, wanted: int) -> Tensor:
        """More memory, for both dtypes and for as many samples as either has."""
        old = self.first(count) if count else None
        shape, dtype = _beside(new, self.dim), new.dtype
        if old is not None:
            shape = tuple(torch.broadcast_shapes(_beside(old, self.dim), shape))
            dtype = torch.promote_types(old.dtype, dtype)
            self.room = max(self.room, 2 * wanted)
        self.room, place = max(self.room, wanted), len(shape) + 1 + self.dim
        memory = new.new_empty((*shape[:place], self.room, *shape[place:]), dtype=dtype)
        if old is not None:
            memory.narrow(self.dim, 0, count).copy_(old)
        self.begin = 0
        return memory


def _beside(t: Tensor, dim: int) -> tuple[int, ...]:
    """The shape without the axis that grows."""
    return (*t.shape[:dim], *t.shape[t.dim() + dim + 1 :])


class Held:
    """Of one layer: transformed keys ``(B, G, K, D)`` and values, and what ``keep`` made, ``(B, H, K, ..)``."""

    def __init__(self, room: int) -> None:
        self.k, self.v, self.count, self.room = Growing(-2, room), Growing(-2, room), 0, room
        self.kept: Growing | None = None

    def extended(self, k: Tensor, v: Tensor, kept: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Those of the tokens before and of the next ones, which stay when the cache counts them."""
        if kept is not None:
            self.kept = self.kept or Growing(2 - kept.dim(), self.room)
            kept = self.kept.put(kept, self.count)
        return self.k.put(k, self.count), self.v.put(v, self.count), kept

    def parts(self) -> list[Growing]:
        return [self.k, self.v, *([] if self.kept is None else [self.kept])]


class Cache:
    """Keys and values of every layer of one model, and where their tokens stand.

    room: for how many tokens memory is taken at first. ``posenc.models.generation.extend`` fills it.
    """

    def __init__(self, *, room: int = 256) -> None:
        self.count, self.room = 0, room
        self.layers: list[Held] = []
        self.makers: list[Maker] = []
        self.weights = Written([])
        self.coords, self.placed, self.documents = Growing(-2, room), Growing(-1, room), Growing(-1, room)

    @property
    def pos(self) -> Positions:
        """Where the tokens stand. Raises ValueError for a cache without any."""
        coords = self.coords.first(self.count)
        if coords is None or not self.count:
            raise ValueError("this cache holds no tokens yet. Fill it: extend(model, tokens, cache)")
        return Positions(coords, self.placed.first(self.count))

    @property
    def samples(self) -> int:
        """How many samples its tokens are of; 0 where there are none."""
        return len(_whole(self.layers[0].k, self.count)) if self.count else 0

    def serve(self, schemes: Sequence[Scheme], weights: Sequence[Tensor]) -> None:
        """Takes the schemes of a model's layers, and its weights, for those that make its keys, or refuses them
        (ValueError)."""
        for scheme in schemes:
            if not scheme.claims.cacheable or scheme.draws:
                why = "draws anew at every pass" if scheme.draws else "does not claim to be cacheable"
                raise ValueError(
                    f"{type(scheme).__name__} {why}, so keys that are kept would not be those of the full pass. "
                    "Generate without a cache: model(tokens) for each token."
                )
        if not self.makers:
            self.makers, self.layers = [Maker(s) for s in schemes], [Held(self.room) for _ in schemes]
        if len(schemes) != len(self.makers):
            raise ValueError(f"this cache is of {len(self.makers)} layers and the model has {len(schemes)}.")
        last = None
        for layer, (maker, scheme) in enumerate(zip(self.makers, schemes, strict=True)):
            before, last = last, (maker.scheme, scheme)
            same = before is not None and before[0] is maker.scheme and before[1] is scheme
            if self.count and not same and not maker.is_like(scheme):
                raise ValueError(
                    f"layer {layer} has {type(scheme).__name__}, and the {self.count} keys of this cache were made "
                    f"with {maker.told(scheme)}. Move them, cache.move(model), or begin a new Cache()."
                )
        if marks(weights) != self.weights.marks:
            self._refuse_other(weights)
            self.weights = Written(weights)
        if not self.count:
            self.makers = [Maker(s) for s in schemes]

    def _refuse_other(self, weights: Sequence[Tensor]) -> None:
        if self.count and not self.weights.equal(weights):
            raise ValueError(
                f"the {self.count} keys of this cache were made with other weights of the model: another model's, or "
                "they were written to since, as by an optimiser's step. Read the text again into a new Cache()."
            )

    def refuse_samples(self, what: str, samples: int) -> None:
        """Raises ValueError for another number of samples than it holds, where it holds any."""
        if self.samples not in (0, samples):
            raise ValueError(
                f"this cache holds {self.samples} samples and {what} came for {samples}. Give them for "
                f"{self.samples}, or begin a new Cache()."
            )

    def remember(self, pos: Positions, documents: Tensor | None) -> tuple[Positions, Tensor | None]:
        """Where all tokens stand with the next ones, and in which run of one document; they stay once counted."""
        count, more = self.count, pos.count
        coords, placed = self.coords.put(pos.coords, count), pos.placed
        if placed is not None or self.placed.memory is not None:
            if count and self.placed.memory is None:
                self.placed.put(torch.ones(count, dtype=torch.bool, device=coords.device), 0)
            full = torch.ones(more, dtype=torch.bool, device=coords.device)
            placed = self.placed.put(full if placed is None else placed, count)
        if documents is None and self.documents.memory is None:
            return Positions(coords, placed), None
        if count and self.documents.memory is None:
            self.documents.put(torch.zeros(2, count, dtype=torch.long, device=coords.device), 0)
        number, run = self.last_document(coords.device).unbind(-2)
        documents = number if documents is None else documents
        rows = torch.broadcast_shapes(number.shape[:-1], documents.shape[:-1])
        documents, number = documents.expand(*rows, more), number.expand(*rows, 1)
        both = torch.stack([documents, run + begins(documents, number).cumsum(-1)], -2)
        return Positions(coords, placed), self.documents.put(both, count)[..., 1, :]

    def last_document(self, device: torch.device) -> Tensor:
        """Of the last token's document its number and its run, ``(2, 1)`` or ``(B, 2, 1)``; 0 where none was said."""
        held = self.documents.first(self.count)
        if held is None or not self.count:
            return torch.zeros(2, 1, dtype=torch.long, device=device)
        return held[..., -1:]

    def counted(self, more: int) -> None:
        """The next tokens stay."""
        self.count += more
        for held in self.layers:
            held.count = self.count

    def drop(self, start: int, stop: int) -> None:
        """Forgets tokens ``start .. stop - 1``; the others stay where they stand, until ``move``."""
        if not 0 <= start <= stop <= self.count:
            raise ValueError(f"this cache holds tokens 0 to {self.count - 1}; {start} to {stop - 1} cannot be dropped.")
        for part in (self.coords, self.placed, self.documents, *(p for held in self.layers for p in held.parts())):
            part.drop(start, stop, self.count)
        self.counted(start - stop)

    def move(self, model: Any, pos: Positions | None = None) -> None:
        """Keys and values as if each layer had made them with the model's present scheme, at ``pos``.

        pos: where the tokens stand from now on; by default where they stood. Tokens without a place stay so unless it
        says which have one. What a layer read stays what it was, so this is exact for a first layer, and for the others
        given what the layers before them said. Raises ValueError, with the cache as it was, where a scheme cannot.
        """
        here, schemes = self.pos, layers_of(model)
        for rows in () if pos is None else (pos.coords[..., 0], pos.placed):
            if rows is not None and rows.dim() == 2 and len(rows) > 1:
                self.refuse_samples("positions", len(rows))
        there = here if pos is None else Positions(pos.coords, here.placed if pos.placed is None else pos.placed)
        if there.count != self.count or len(schemes) != len(self.layers):
            raise ValueError(
                f"this cache holds {self.count} tokens of {len(self.layers)} layers; got {there.count} positions and "
                f"{len(schemes)} layers. Give a position for each token, and the model that filled it."
            )
        self._refuse_other(weights_of(model))
        made = []
        for held, maker, scheme in zip(self.layers, self.makers, schemes, strict=True):
            k, v = _whole(held.k, self.count), _whole(held.v, self.count)
            if there is here and maker.is_like(scheme):
                made.append((k, v))
                continue
            maker.refuse_unfit(scheme, keeps=held.kept is not None)
            before, after = maker.scheme.prepare(here), scheme.prepare(there)
            x = torch.randn(*k.shape[:3], model.config.head_dim, generator=torch.Generator().manual_seed(0))
            refuse_unfaithful(maker.scheme, scheme, before, after, x.to(k.device))
            made.append((scheme.rerotate(k, before, after, "k"), scheme.rerotate(v, before, after, "v")))
        for held, (k, v) in zip(self.layers, made, strict=True):
            held.k.put(k, 0)
            held.v.put(v, 0)
        self.coords.put(there.coords, 0)
        if there.placed is not None:
            self.placed.put(there.placed, 0)
        self.makers = [Maker(scheme) for scheme in schemes]

    @classmethod
    def joined(cls, caches: Sequence[Cache]) -> Cache:
        """Fragments that were read apart, one after the other, each where it stood: ``move`` gives them new places.

        What is said after them sees all; they never saw each other. Raises ValueError where other schemes or weights
        made them, where they are of other samples, and where they hold documents, which see themselves alone.
        """
        if not caches or not all(cache.count for cache in caches):
            raise ValueError("caches are joined where there is at least one, and each holds tokens. Leave out others.")
        if any(cache.documents.memory is not None for cache in caches):
            raise ValueError(
                "what is said after caches that are joined sees all that they hold, and one of these holds documents, "
                "which see themselves alone. Read each text into a cache of its own, without `documents`."
            )
        several = sorted({cache.samples for cache in caches} - {1})
        if len(several) > 1:
            raise ValueError(
                f"caches are joined of as many samples each; these hold {', '.join(map(str, several))}. Read every "
                "fragment for all samples, or once for all of them."
            )
        joined = cls(room=2 * sum(cache.count for cache in caches))
        for cache in caches:
            own = [maker.scheme for maker in cache.makers], cache.weights.tensors
            cache.serve(*own)  # a scheme or weights that were changed since are not those that made its keys
            joined.serve(*own)
            for new, held in zip(joined.layers, cache.layers, strict=True):
                kept = None if held.kept is None else held.kept.first(held.count)
                new.extended(_whole(held.k, held.count), _whole(held.v, held.count), kept)
            joined.remember(cache.pos, None)
            joined.counted(cache.count)
        return joined


def _whole(part: Growing, count: int) -> Tensor:
    held = part.first(count)
    assert held is not None
    return held
