"""Key-value cache for decoding: transformed keys and values of every layer, and the positions of their tokens.

Memory is reserved ahead of need and doubled when it is full. A decoding step therefore copies no earlier token, and
dropping the oldest tokens copies nothing.

A cache stores a fingerprint of the schemes and weights that made its keys. It refuses a scheme of another kind, with
other frequencies or with other trained parameters. ``move`` converts the keys to the new scheme where the scheme's
``rerotate`` can do so. A cache also refuses other weights of the model. Changes that are written through ``.data`` are
not detected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from posenc.kernels.attention_mask import document_starts
from posenc.models.cache_fingerprint import (
    SchemeFingerprint,
    TensorVersions,
    layers_of,
    refuse_unfaithful,
    tensor_versions,
    weights_of,
)
from posenc.positions import Positions
from posenc.scheme import Scheme


class GrowingTensor:
    """A tensor that grows along one axis, in memory that is reserved ahead of need.

    Args:
        dim: the axis that grows, counted from the end (negative).
        room: entries along that axis to reserve at first.
    """

    def __init__(self, dim: int, room: int) -> None:
        self.dim, self.room, self.begin = dim, room, 0
        self.memory: Tensor | None = None

    def put(self, new: Tensor, count: int) -> Tensor:
        """Write ``new`` after the first ``count`` entries and return a view of all entries."""
        more = new.shape[self.dim]
        if self.memory is None or not self._fits(self.memory, new, count + more):
            self.memory = self._reserved(new, count, count + more)
        self.memory.narrow(self.dim, self.begin + count, more).copy_(new)
        return self.memory.narrow(self.dim, self.begin, count + more)

    def first(self, count: int) -> Tensor | None:
        """Return a view of the first ``count`` entries, or None if nothing was written yet."""
        return None if self.memory is None else self.memory.narrow(self.dim, self.begin, count)

    def drop(self, start: int, stop: int, count: int) -> None:
        """Remove entries ``start .. stop - 1`` of the first ``count``.

        Entries before ``start`` are copied forward. Nothing is copied if the oldest or the newest entries are removed.
        """
        if self.memory is None or stop == count:
            return
        if start:
            before = self.memory.narrow(self.dim, self.begin, start).clone()
            self.memory.narrow(self.dim, self.begin + stop - start, start).copy_(before)
        self.begin += stop - start

    def _fits(self, memory: Tensor, new: Tensor, count: int) -> bool:
        frozen = memory.is_inference() and not torch.is_inference_mode_enabled()
        alike = _other_sizes(memory, self.dim) == _other_sizes(new, self.dim) and memory.dtype == new.dtype
        return alike and not frozen and self.begin + count <= memory.shape[self.dim]

    def _reserved(self, new: Tensor, count: int, wanted: int) -> Tensor:
        """Reserve more memory, in the wider dtype and broadcast batch shape of the old and the new entries."""
        old = self.first(count) if count else None
        shape, dtype = _other_sizes(new, self.dim), new.dtype
        if old is not None:
            shape = tuple(torch.broadcast_shapes(_other_sizes(old, self.dim), shape))
            dtype = torch.promote_types(old.dtype, dtype)
            self.room = max(self.room, 2 * wanted)
        self.room, place = max(self.room, wanted), len(shape) + 1 + self.dim
        memory = new.new_empty((*shape[:place], self.room, *shape[place:]), dtype=dtype)
        if old is not None:
            memory.narrow(self.dim, 0, count).copy_(old)
        self.begin = 0
        return memory


def _other_sizes(t: Tensor, dim: int) -> tuple[int, ...]:
    """Return the shape without the axis that grows."""
    return (*t.shape[:dim], *t.shape[t.dim() + dim + 1 :])


class LayerCache:
    """Cache of one layer: transformed keys and values ``(B, G, K, D)``, and the scheme's ``keep``, ``(B, H, K, ..)``.

    G is the number of key heads and H the number of query heads.
    """

    def __init__(self, room: int) -> None:
        self.k, self.v, self.count, self.room = GrowingTensor(-2, room), GrowingTensor(-2, room), 0, room
        self.kept: GrowingTensor | None = None

    def extended(self, k: Tensor, v: Tensor, kept: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
        """Append the entries of new tokens and return the entries of all tokens.

        The new entries become permanent when the cache counts them (``Cache.counted``).
        """
        if kept is not None:
            self.kept = self.kept or GrowingTensor(2 - kept.dim(), self.room)
            kept = self.kept.put(kept, self.count)
        return self.k.put(k, self.count), self.v.put(v, self.count), kept

    def parts(self) -> list[GrowingTensor]:
        """Return the growing tensors of the layer."""
        return [self.k, self.v, *([] if self.kept is None else [self.kept])]


class Cache:
    """Key-value cache of all layers of one model, with the positions of the cached tokens.

    ``posenc.models.generation.extend`` fills it.

    Args:
        room: number of tokens for which memory is reserved at first.
    """

    def __init__(self, *, room: int = 256) -> None:
        self.count, self.room = 0, room
        self.layers: list[LayerCache] = []
        self.fingerprints: list[SchemeFingerprint] = []
        self.weights = TensorVersions([])
        self.coords, self.placed, self.documents, self.tokens = (
            GrowingTensor(-2, room),
            GrowingTensor(-1, room),
            GrowingTensor(-1, room),
            GrowingTensor(-1, room),
        )
        self.whole = True
        """False if tokens were dropped before later ones, or texts were joined: reading again gives other keys then."""

    @property
    def pos(self) -> Positions:
        """Positions of the cached tokens. Raises ValueError for an empty cache."""
        coords = self.coords.first(self.count)
        if coords is None or not self.count:
            raise ValueError("this cache holds no tokens yet. Fill it: extend(model, tokens, cache)")
        return Positions(coords, self.placed.first(self.count))

    @property
    def samples(self) -> int:
        """Batch size of the cached keys; 0 for an empty cache."""
        return len(_all_entries(self.layers[0].k, self.count)) if self.count else 0

    def serve(self, schemes: Sequence[Scheme], weights: Sequence[Tensor]) -> None:
        """Set the schemes and weights that make the cache's keys, or check that they are still the same.

        Args:
            schemes: the scheme of each layer.
            weights: the weights of the model that keys depend on.

        Raises:
            ValueError: a scheme that cannot be cached, or schemes or weights that did not make the cached keys.
        """
        for scheme in schemes:
            if not scheme.claims.cacheable or scheme.draws:
                why = "draws anew at every pass" if scheme.draws else "does not claim to be cacheable"
                raise ValueError(
                    f"{type(scheme).__name__} {why}, so cached keys would differ from those of the full pass. "
                    "Generate without a cache: model(tokens) for each token."
                )
        if not self.fingerprints:
            self.fingerprints, self.layers = (
                [SchemeFingerprint(s) for s in schemes],
                [LayerCache(self.room) for _ in schemes],
            )
        if len(schemes) != len(self.fingerprints):
            raise ValueError(
                f"this cache has {len(self.fingerprints)} layers and the model has {len(schemes)}. Begin a new Cache()."
            )
        last = None
        for layer, (stored, scheme) in enumerate(zip(self.fingerprints, schemes, strict=True)):
            last_pair, last = last, (stored.scheme, scheme)
            same = last_pair is not None and last_pair[0] is stored.scheme and last_pair[1] is scheme
            if self.count and not same and not stored.is_like(scheme):
                raise ValueError(
                    f"layer {layer} has {type(scheme).__name__}, and the {self.count} keys of this cache were made "
                    f"with {stored.described(scheme)}. Move them, cache.move(model), or begin a new Cache()."
                )
        if tensor_versions(weights) != self.weights.marks:
            self.refuse_other_weights(weights)
            self.weights = TensorVersions(weights)
        if not self.count:
            self.fingerprints = [SchemeFingerprint(s) for s in schemes]

    def refuse_other_weights(self, weights: Sequence[Tensor]) -> None:
        """Raise ValueError if the model's weights are not those that made the keys of the cache."""
        if self.count and not self.weights.equal(weights):
            raise ValueError(
                f"the {self.count} keys of this cache were made with other weights of the model: it is another model, "
                "or its weights were changed since, as by an optimizer's step. Read the text again into a new Cache()."
            )

    def refuse_samples(self, what: str, samples: int) -> None:
        """Raise ValueError if ``samples`` differs from the batch size of a cache that is not empty."""
        if self.samples not in (0, samples):
            raise ValueError(
                f"this cache holds {self.samples} samples and {what} came for {samples}. Give them for "
                f"{self.samples}, or begin a new Cache()."
            )

    def remember(self, pos: Positions, documents: Tensor | None) -> tuple[Positions, Tensor | None]:
        """Append the positions and document numbers of new tokens and return those of all tokens.

        The new entries become permanent when the cache counts them. A document is returned as the number of its run of
        equal document numbers, ``(K,)`` or ``(B, K)``.
        """
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
        both = torch.stack([documents, run + document_starts(documents, number).cumsum(-1)], -2)
        return Positions(coords, placed), self.documents.put(both, count)[..., 1, :]

    @property
    def holds_tokens(self) -> bool:
        """True if the cache holds the tokens of its whole text so far, or is empty."""
        return not self.count or self.tokens.memory is not None

    def changed(self, schemes: Sequence[Scheme]) -> list[Scheme]:
        """Those of the schemes of all layers that would make other keys than the cached ones; none for an empty cache.

        Args:
            schemes: the scheme of each layer.
        """
        stored = self.fingerprints if self.count else []
        return [new for old, new in zip(stored, schemes, strict=False) if not old.is_like(new)]

    def empty_layers(self) -> list[LayerCache]:
        """New empty caches of all layers."""
        return [LayerCache(self.room) for _ in self.layers]

    def remember_tokens(self, tokens: Tensor) -> Tensor:
        """Append new tokens ``(B, N)`` and return all tokens, for schemes that read a text again.

        The new entries become permanent when the cache counts them.
        """
        return self.tokens.put(tokens, self.count)

    def refuse_rereading(self, name: str) -> None:
        """Raise ValueError if the text cannot be read again: the cache does not hold all of its tokens.

        Args:
            name: name of the scheme whose frequencies have changed.
        """
        if not (self.whole and self.holds_tokens):
            raise ValueError(
                f"this {name} reads the whole text again when its frequencies change, and this cache does not hold it: "
                "tokens were dropped or texts were joined. Build it with exact='keys', which rotates cached keys."
            )

    def read_again(self, layers: list[LayerCache], schemes: Sequence[Scheme]) -> None:
        """Replace all keys and values by those of a pass over the whole text with other schemes.

        Args:
            layers: keys and values of each layer, of all tokens including new ones.
            schemes: the scheme of each layer that made them.
        """
        self.layers, self.fingerprints = layers, [SchemeFingerprint(scheme) for scheme in schemes]

    def last_document(self, device: torch.device) -> Tensor:
        """Return the last token's document number and run number, ``(2, 1)`` or ``(B, 2, 1)``; 0 without documents."""
        documents = self.documents.first(self.count)
        if documents is None or not self.count:
            return torch.zeros(2, 1, dtype=torch.long, device=device)
        return documents[..., -1:]

    def counted(self, more: int) -> None:
        """Count ``more`` tokens, which makes the entries that were appended last permanent."""
        self.count += more
        for held in self.layers:
            held.count = self.count

    def drop(self, start: int, stop: int) -> None:
        """Remove tokens ``start .. stop - 1``. The other tokens keep their positions until ``move`` changes them.

        Args:
            start: first token to remove, counted from 0.
            stop: the token after the last one to remove.

        Raises:
            ValueError: tokens that the cache does not hold.
        """
        if not 0 <= start <= stop <= self.count:
            raise ValueError(f"this cache holds tokens 0 to {self.count - 1}; {start} to {stop - 1} cannot be dropped.")
        self.whole = (self.whole and (start == stop or stop == self.count)) or (start, stop) == (0, self.count)
        for part in (
            self.coords,
            self.placed,
            self.documents,
            self.tokens,
            *(p for held in self.layers for p in held.parts()),
        ):
            part.drop(start, stop, self.count)
        self.counted(start - stop)

    def move(self, model: Any, pos: Positions | None = None, *, later: Positions | None = None) -> None:
        """Move the cached keys and values to positions ``pos`` and to the model's present schemes.

        Afterwards each layer's keys and values are those that its present scheme would make at ``pos``, from the same
        input to the layer. The inputs themselves are not computed again. The result therefore equals a new forward
        pass for the first layer. For later layers it is exact given the earlier outputs of the layers before them.

        Args:
            model: the language model that filled the cache.
            pos: new positions of the tokens; by default their present ones. Tokens without a position stay without one,
                unless ``pos.placed`` is given.
            later: positions of tokens that will follow, for schemes whose frequencies depend on the length of the text.

        Raises:
            ValueError: a scheme that cannot move its keys, or positions of another number of tokens. The cache is then
                unchanged.
        """
        here = self.pos
        for rows in () if pos is None else (pos.coords[..., 0], pos.placed):
            if rows is not None and rows.dim() == 2 and len(rows) > 1:
                self.refuse_samples("positions", len(rows))
        there = here if pos is None else Positions(pos.coords, here.placed if pos.placed is None else pos.placed)
        schemes = layers_of(model, *([there] if later is None else [there, later]))
        if there.count != self.count or len(schemes) != len(self.layers):
            raise ValueError(
                f"this cache holds {self.count} tokens of {len(self.layers)} layers; got {there.count} positions and "
                f"{len(schemes)} layers. Give a position for each token, and the model that filled it."
            )
        self.refuse_other_weights(weights_of(model))
        made, places = [], dict[tuple[int, int], Any]()
        for held, stored, scheme in zip(self.layers, self.fingerprints, schemes, strict=True):
            k, v = _all_entries(held.k, self.count), _all_entries(held.v, self.count)
            if there is here and stored.is_like(scheme):
                made.append((k, v))
                continue
            stored.refuse_unfit(scheme, keeps=held.kept is not None)
            pair = id(stored.scheme), id(scheme)
            before, after = places.get(pair) or (stored.scheme.prepare(here), scheme.prepare(there))
            if pair not in places:
                places[pair] = before, after
                x = torch.randn(*k.shape[:3], model.config.head_dim, generator=torch.Generator().manual_seed(0))
                refuse_unfaithful(stored.scheme, scheme, before, after, x.to(k.device))
            made.append((scheme.rerotate(k, before, after, "k"), scheme.rerotate(v, before, after, "v")))
        for held, (k, v) in zip(self.layers, made, strict=True):
            held.k.put(k, 0)
            held.v.put(v, 0)
        self.coords.put(there.coords, 0)
        if there.placed is not None:
            self.placed.put(there.placed, 0)
        self.fingerprints = [SchemeFingerprint(scheme) for scheme in schemes]

    @classmethod
    def joined(cls, caches: Sequence[Cache]) -> Cache:
        """Concatenate caches of texts that were read separately.

        Each text keeps its positions; ``move`` can change them. Tokens that are generated afterwards attend to all the
        texts. The texts do not attend to each other.

        Args:
            caches: caches that the same model filled, none of them empty.

        Returns:
            A new cache that holds the tokens of all caches in order.

        Raises:
            ValueError: an empty cache, other schemes or weights, other batch sizes, or caches with packed documents.
        """
        if not caches or not all(cache.count for cache in caches):
            raise ValueError("joining needs at least one cache, and each must hold tokens. Leave out empty caches.")
        if any(cache.documents.memory is not None for cache in caches):
            raise ValueError(
                "new tokens attend to everything in joined caches, and one of these caches holds packed documents, "
                "which attend to themselves alone. Read each text into a cache of its own, without `documents`."
            )
        several = sorted({cache.samples for cache in caches} - {1})
        if len(several) > 1:
            raise ValueError(
                f"joined caches need equal numbers of samples; these hold {', '.join(map(str, several))}. Read every "
                "fragment for all samples, or once for all of them."
            )
        joined = cls(room=2 * sum(cache.count for cache in caches))
        for cache in caches:
            own = [stored.scheme for stored in cache.fingerprints], cache.weights.tensors
            cache.serve(*own)  # refuses schemes or weights that were changed after they made the keys
            joined.serve(*own)
            for new, held in zip(joined.layers, cache.layers, strict=True):
                kept = None if held.kept is None else held.kept.first(held.count)
                new.extended(_all_entries(held.k, held.count), _all_entries(held.v, held.count), kept)
            joined.remember(cache.pos, None)
            joined.counted(cache.count)
        return joined


def _all_entries(part: GrowingTensor, count: int) -> Tensor:
    entries = part.first(count)
    assert entries is not None
    return entries
