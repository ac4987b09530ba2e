"""What decoding keeps of the tokens before: keys and values as transformed, and what a bias reads of their rows.

Memory is taken ahead and doubled when it is full, so a step copies nothing that is there, and dropping the oldest
tokens moves nothing. A cache knows which schemes made it: keys that were made with another scheme, another schedule of
frequencies or other trained numbers are refused; ``move`` makes them those of the new one, where ``rerotate`` can.
"""

from __future__ import annotations

import hashlib
import itertools
import pickle
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.positions import Positions
from posenc.scheme import Scheme

MOVED = 1e-4
"""How far, in a vector of length sqrt(D), a moved key may be from one made there: less than a float32 angle is off."""


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
        old = self.first(count)
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
        self.coords, self.placed, self.documents = Growing(-2, room), Growing(-1, room), Growing(-1, room)

    @property
    def pos(self) -> Positions:
        """Where the tokens stand. Raises ValueError for a cache without any."""
        coords = self.coords.first(self.count)
        if coords is None or not self.count:
            raise ValueError("this cache holds no tokens yet. Fill it: extend(model, tokens, cache)")
        return Positions(coords, self.placed.first(self.count))

    def serve(self, schemes: Sequence[Scheme]) -> None:
        """Takes the schemes of a model's layers for those that make its keys, or refuses them (ValueError)."""
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
                    f"layer {layer} has {_short(scheme)}, and the {self.count} keys of this cache were made with "
                    f"{maker.told(scheme)}. Move them, cache.move(model), or begin a new Cache()."
                )
        if not self.count:
            self.makers = [Maker(s) for s in schemes]

    def remember(self, pos: Positions, documents: Tensor | None) -> tuple[Positions, Tensor | None]:
        """Where all tokens stand with the next ones, and of which document they are; they stay once counted."""
        count, more = self.count, pos.count
        coords, placed = self.coords.put(pos.coords, count), pos.placed
        if placed is not None or self.placed.memory is not None:
            if count and self.placed.memory is None:
                self.placed.put(torch.ones(count, dtype=torch.bool, device=coords.device), 0)
            full = torch.ones(more, dtype=torch.bool, device=coords.device)
            placed = self.placed.put(full if placed is None else placed, count)
        if documents is not None or self.documents.memory is not None:
            if count and self.documents.memory is None:
                self.documents.put(torch.zeros(count, dtype=torch.long, device=coords.device), 0)
            last = self.last_document()
            same = torch.zeros(1, dtype=torch.long, device=coords.device) if last is None else last
            documents = self.documents.put(same.expand(*same.shape[:-1], more) if documents is None else documents,
                                           count)  # fmt: skip
        return Positions(coords, placed), documents

    def last_document(self) -> Tensor | None:
        """The document of the last token, ``(1,)`` or ``(B, 1)``: of tokens that did not say, 0."""
        held = self.documents.first(self.count)
        return None if held is None or not self.count else held[..., -1:]

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

        pos: where the tokens stand from now on; by default where they stood. What a layer read stays what it was, so
        this is exact for a first layer, and for the others given what the layers before them said. Raises ValueError,
        with the cache as it was, where a scheme cannot.
        """
        here, schemes = self.pos, layers_of(model)
        there = here if pos is None else Positions(pos.coords, pos.placed if here.placed is None else here.placed)
        if there.count != self.count or len(schemes) != len(self.layers):
            raise ValueError(
                f"this cache holds {self.count} tokens of {len(self.layers)} layers; got {there.count} positions and "
                f"{len(schemes)} layers. Give a position for each token, and the model that filled it."
            )
        made = []
        for held, maker, scheme in zip(self.layers, self.makers, schemes, strict=True):
            k, v = _whole(held.k, self.count), _whole(held.v, self.count)
            if there is here and maker.is_like(scheme):
                made.append((k, v))
                continue
            maker.refuse_unfit(scheme, held)
            before, after = maker.scheme.prepare(here), scheme.prepare(there)
            refuse_unfaithful(maker.scheme, scheme, before, after, (*k.shape[1:3], model.config.head_dim))
            made.append((scheme.rerotate(k, before, after, "k"), scheme.rerotate(v, before, after, "v")))
        for held, (k, v) in zip(self.layers, made, strict=True):
            held.k.put(k, 0)
            held.v.put(v, 0)
        self.coords.put(there.coords, 0)
        self.makers = [Maker(scheme) for scheme in schemes]

    @classmethod
    def joined(cls, caches: Sequence[Cache]) -> Cache:
        """Fragments that were read apart, one after the other, each where it stood: ``move`` gives them new places.

        What is said after them sees all; they never saw each other. Raises ValueError where other schemes made them.
        """
        if not caches or not all(cache.count for cache in caches):
            raise ValueError("caches are joined where there is at least one, and each holds tokens. Leave out others.")
        joined = cls(room=2 * sum(cache.count for cache in caches))
        for cache in caches:
            joined.serve([maker.scheme for maker in cache.makers])
            for new, held in zip(joined.layers, cache.layers, strict=True):
                kept = None if held.kept is None else held.kept.first(held.count)
                new.extended(_whole(held.k, held.count), _whole(held.v, held.count), kept)
            joined.remember(cache.pos, None)
            joined.counted(cache.count)
        return joined


class Maker:
    """The scheme that made a layer's keys, and what it was when it did."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme, self.values, self.versions = scheme, plain(scheme), versions(scheme)
        self.fingerprint = fingerprint(scheme)

    def is_like(self, scheme: Scheme) -> bool:
        """Whether it makes the same keys: the same untouched object, else one of the same numbers."""
        if scheme is self.scheme and self._untouched():
            return True
        return fingerprint(scheme) == self.fingerprint

    def _untouched(self) -> bool:
        now, numbers = plain(self.scheme), versions(self.scheme)
        alike = now.keys() == self.values.keys() and all(value is self.values[name] for name, value in now.items())
        return alike and numbers == self.versions

    def told(self, scheme: Scheme) -> str:
        """What it is, beside one that is not like it."""
        if type(scheme) is not type(self.scheme):
            return _short(self.scheme)
        now = plain(scheme)
        other = [name for name, value in self.values.items() if _bytes(now.get(name)) != _bytes(value)]
        return f"another {_short(scheme)}, of another {other[0].strip('.') if other else 'state'}"

    def refuse_unfit(self, scheme: Scheme, held: Held) -> None:
        """Raises ValueError unless its keys can become those of a scheme by ``rerotate`` alone."""
        name = _short(self.scheme)
        if scheme is self.scheme and fingerprint(scheme) != self.fingerprint:
            raise ValueError(
                f"this {name} was changed after it made the keys of the cache, and what it was is lost. Begin a new "
                "Cache(); to change a schedule, place new schemes: model.place(lambda layer: ..)."
            )
        if type(scheme) is not type(self.scheme):
            raise ValueError(f"keys of {name} cannot become keys of {_short(scheme)}. Begin a new Cache().")
        if "embed" in scheme.claims.sites:
            raise ValueError(
                f"{name} adds rows to the tokens, so positions are in all that was made of them and cached keys cannot "
                "be moved. Begin a new Cache(), or choose a scheme that acts in attention."
            )
        if held.kept is not None and _tensors(scheme) != _tensors(self.scheme):
            raise ValueError(f"what this {name} kept of each token was made by other weights. Begin a new Cache().")


def refuse_unfaithful(old: Scheme, new: Scheme, before: Any, after: Any, shape: tuple[int, ...]) -> None:
    """Raises ValueError unless vectors ``(G, K, D)`` that are moved are those that would be made."""
    device = next((t.device for t in (*new.parameters(), *new.buffers())), torch.device("cpu"))
    x = torch.randn(1, *shape, generator=torch.Generator().manual_seed(0)).to(device)
    for site in ("k", "v"):
        try:
            moved = new.rerotate(old.transform(x, before, site), before, after, site)
            wanted = new.transform(x, after, site)
            same = moved.shape == wanted.shape and torch.allclose(moved, wanted, atol=MOVED, rtol=MOVED)
        except RuntimeError:
            same = False
        if not same:
            raise ValueError(
                f"keys of this {_short(old)} cannot become keys of the other by a turn: they differ in more than "
                "frequencies. Begin a new Cache()."
            )


def layers_of(model: Any) -> list[Scheme]:
    """The scheme of each layer of a language model."""
    return [model.unique_schemes[which] for which in model.scheme_of]


def fingerprint(scheme: Scheme) -> str:
    """A hash of what the keys that it makes depend on: its kind, its numbers and its tensors."""
    digest = hashlib.sha256(type(scheme).__qualname__.encode())
    for name, value in sorted(plain(scheme).items()):
        digest.update(name.encode() + b"=" + _bytes(value))
    digest.update(_tensors(scheme))
    return digest.hexdigest()


def plain(scheme: Scheme) -> dict[str, Any]:
    """Everything that it and its parts were built with, but tensors: ``name.attribute`` to value."""
    return {
        f"{name}.{attribute}": value
        for name, part in scheme.named_modules()
        for attribute, value in vars(part).items()
        if not attribute.startswith("_") and attribute not in ("training", "claims", "prepare")
    }


def versions(scheme: Scheme) -> list[tuple[int, int]]:
    """Each tensor, and how often it was written to."""
    return [(id(t), -1 if t.is_inference() else t._version) for t in (*scheme.parameters(), *scheme.buffers())]


def _tensors(scheme: Scheme) -> bytes:
    digest = hashlib.sha256()
    for name, t in itertools.chain(scheme.named_parameters(), scheme.named_buffers()):
        digest.update(f"{name}{t.dtype}{tuple(t.shape)}".encode())
        digest.update(t.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.digest()


def _bytes(value: Any) -> bytes:
    return pickle.dumps(value)


def _whole(part: Growing, count: int) -> Tensor:
    held = part.first(count)
    assert held is not None
    return held


def _short(scheme: Scheme) -> str:
    return type(scheme).__name__
