"""Schemes in the attention of transformers models, by transformers' ``AttentionInterface`` and mask interface.

A model that calls its attention by ``config._attn_implementation`` calls ``_scheme_attention`` for the name "posenc".
The model's rotation is replaced by one without angles. Keys and values are transformed once, before they are cached.
If the scheme reads pairs of positions, further channels of a key hold the position of its token and the scheme's
``keep`` of it. Every cache of transformers therefore knows the position of each key, whatever it drops or reorders.
Keys whose rotation depends on the length of the text are cached as they are projected, and transformed at each step.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.adapt import key_channels
from posenc.adapt.compatibility import refuse_sites
from posenc.adapt.rotary_embedding import Kind, Rotary, own_rotation
from posenc.attention import attend, attend_with_weights
from posenc.kernels.attention_mask import LOWEST_ADDED, causal_mask
from posenc.kernels.householder import has_undivided
from posenc.lookup import own_scheme
from posenc.models.layers import layers
from posenc.positions import Positions, readable, sequence
from posenc.scheme import Scheme
from posenc.schemes.nope import NoPE

NAME = "posenc"
"""Name of the attention in ``config._attn_implementation``."""
OF_PAIRS = {"bias", "value_bias", "mask"}
"""Sites at which a scheme reads pairs of positions."""
SITES = OF_PAIRS | {"q", "k", "v", "o"}
MORE = {"softcap": "caps its logits", "s_aux": "has attention sinks", "position_bias": "adds a bias of its own"}
"""Arguments of a model's attention that change its logits, and what they mean."""
CACHES = ("past_key_values", "layer_past")
"""Names of the cache among the arguments of attention modules."""
MARK = "posenc_schemes"
"""Attribute of a cache of transformers: the schemes that its keys were transformed by."""
SCALE = 2.0**-10
"""Positions are stored times this, so that float16 holds those up to 67 million."""


class ForwardPass:
    """Prepared positions of one forward pass, which its layers share.

    Args:
        schemes: The schemes of the model.
        numbers: Number of the scheme of each layer.
        ids: Positions of the new tokens, ``(B, N)`` or ``(1, N)``.
        reached: Set that gets the number of each layer whose attention was called.
        rotations: For each scheme a function that computes cosines and sines for the model's own rotation, if that is
            all that the scheme does.
        calls: Calls of the schemes, which a cache is marked with.
    """

    def __init__(
        self, schemes: Sequence[Scheme], numbers: Sequence[int], ids: Tensor, reached: set[int],
        rotations: Sequence[Callable[[], Any] | None], calls: str,
    ) -> None:  # fmt: skip
        self.schemes, self.numbers, self.ids, self.reached, self.rotations = schemes, numbers, ids, reached, rotations
        self.calls = calls
        self._shared: dict[Any, tuple[int, Any]] = {}

    def shared(self, key: Any, layer: int, make: Callable[[], Any]) -> Any:
        """A value that the first layer makes and later layers share. Checkpointing runs a layer twice: it makes two."""
        maker, value = self._shared.get(key, (layer, None))
        if maker == layer:
            value = make()
            self._shared[key] = layer, value
        return value

    def causal(self, queries: int, layer: int, device: torch.device) -> Any:
        """The causal mask of a forward pass without cached keys."""
        return self.shared(("causal", queries), layer, lambda: causal_mask(queries, queries, None, device))


class PositionEmbeddings(tuple[Tensor, Tensor]):
    """Cosines and sines of no rotation, together with the forward pass that they belong to."""

    forward_pass: ForwardPass | None = None


class SchemeEmbedding(nn.Module):
    """A ``rotary_emb`` that rotates nothing and tells the attention which schemes to apply.

    Args:
        schemes: Different schemes.
        numbers: Number of the scheme of each layer.
        kind: Conventions of the model's own rotation.

    Attributes:
        rotations: For each scheme that only rotates as the model does: a ``rotary_emb`` that makes its cosines and
            sines. None for the others.
    """

    def __init__(self, schemes: Sequence[Scheme], numbers: Sequence[int], kind: Kind) -> None:
        super().__init__()
        self.schemes, self.numbers, self.kind = nn.ModuleList(schemes), tuple(numbers), kind
        self.reached: set[int] = set()
        self.calls = ", ".join(map(_call, schemes))
        self.rotations: tuple[Rotary | None, ...] = (None,) * len(schemes)

    def find_rotations(self) -> None:
        """Measure which schemes only rotate as the model does. Its layers then rotate and attend as before."""
        trained = [scheme.claims.learned for scheme in self.distinct]  # these may rotate otherwise after a step
        self.rotations = tuple(
            None if learned else own_rotation(scheme, self.kind)
            for scheme, learned in zip(self.distinct, trained, strict=True)
        )

    @property
    def scheme(self) -> Scheme:
        """The scheme of the first layer."""
        return self.distinct[self.numbers[0]]

    @property
    def distinct(self) -> list[Scheme]:
        """The different schemes."""
        return [scheme for scheme in self.schemes if isinstance(scheme, Scheme)]

    @override
    def forward(self, x: Tensor, position_ids: Tensor) -> PositionEmbeddings:
        if position_ids.dim() != 2:
            raise ValueError(
                f"this model has position ids of shape {tuple(position_ids.shape)}; a scheme for text reads (B, N)."
            )
        ones = x.new_ones(*position_ids.shape, self.kind.width)
        embeddings = PositionEmbeddings((ones, torch.zeros_like(ones)))
        rotations = [None if each is None else functools.partial(each, x, position_ids) for each in self.rotations]
        embeddings.forward_pass = ForwardPass(
            self.distinct, self.numbers, position_ids, self.reached, rotations, self.calls
        )
        return embeddings


def _call(scheme: Scheme) -> str:
    """The call that makes a scheme; its class alone if an argument cannot be written."""
    try:
        return own_scheme.call_of(scheme)
    except ValueError:
        return type(scheme).__name__


class OwnRotation(NamedTuple):
    """A call of a layer whose scheme only rotates as the model does: the model rotates and attends as before."""

    forward_pass: ForwardPass
    layer: int

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Any, scale: float, dropout: float, *, weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Head outputs of rotated queries and keys, with attention weights."""
        nowhere = NoPE().prepare(sequence(1))
        return attend_with_weights(q, k, v, NoPE(), nowhere, nowhere, None, mask=mask, dropout=dropout, scale=scale)


class Call:
    """One call of one layer's attention.

    Args:
        forward_pass: The forward pass.
        layer: Number of the layer.
        x: Input of the attention block at the new tokens, ``(B, N, dim)``.
        window: Tokens that a sliding cache of the layer keeps; None for all.
    """

    def __init__(self, forward_pass: ForwardPass, layer: int, x: Tensor, window: int | None) -> None:
        self.forward_pass, self.layer, self.window = forward_pass, layer, window
        self.number = forward_pass.numbers[layer]
        self.scheme = forward_pass.schemes[self.number]
        self.where, self.keys_ready, self.reads_positions = forward_pass.shared(self.number, layer, self._prepared)
        self.kept = self.scheme.keep(x, self.where)
        self.width = 0

    def _prepared(self) -> tuple[Any, bool, bool]:
        """Prepared positions of the new tokens; and whether the scheme needs those of cached keys, or only the keys."""
        ids, ready = self.forward_pass.ids, self.scheme.exact is None
        where = self.scheme.prepare(sequence(ids[0] if len(ids) == 1 else ids))
        return where, ready, not (ready and self.scheme.claims.sites.isdisjoint(OF_PAIRS))

    def as_cached(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys ``(B, G, N, D)`` and values of new tokens as a cache holds them, with positions as further channels."""
        if self.keys_ready:
            key, value = self.scheme.transform(key, self.where, "k"), self.scheme.transform(value, self.where, "v")
        self.width = key.shape[-1]
        return (self._with_positions(key) if self.reads_positions else key), value

    def _with_positions(self, key: Tensor) -> Tensor:
        """Keys with the positions of their tokens, and with ``keep`` if the scheme has it."""

        def positions() -> Tensor:
            return self.forward_pass.ids[..., None].to(torch.promote_types(key.dtype, torch.float32)) * SCALE

        def channels() -> Tensor:
            return key_channels.channels(positions(), key.shape[1], key.dtype).expand(len(key), -1, -1, -1)

        if self.kept is None:
            shared = self.forward_pass.shared(("positions", key.shape[:2], key.dtype), self.layer, channels)
            return torch.cat([key, shared], -1)
        kept = self.kept.movedim(2, 1).flatten(2).to(torch.promote_types(key.dtype, torch.float32))
        return key_channels.append(key, torch.cat([positions().expand(len(kept), -1, -1), kept], -1))

    def attend(
        self, q: Tensor, wide: Tensor, v: Tensor, mask: Any, scale: float, dropout: float, *, weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Head outputs ``(B, H, Q, D)`` of queries, and of keys and values as they are cached; weights if asked."""
        count, new = wide.shape[2], wide.shape[2] == q.shape[2]
        where_q, where_k, pair, made = self.forward_pass.shared(
            (self.number, count), self.layer, lambda: self._related(wide, new)
        )
        k = wide[..., : self.width] if self.reads_positions else wide
        kept = self.kept if new or self.kept is None else self._kept_of_all(wide)
        if dropout or weights:
            return attend_with_weights(
                q, k, v, self.scheme, where_q, where_k, pair,
                kept=kept, mask=mask, dropout=dropout, scale=scale, keys_ready=self.keys_ready,
            )  # fmt: skip
        return attend(
            q, k, v, self.scheme, where_q, where_k, pair,
            kept=kept, mask=mask, scale=scale, made=(made, self.layer), keys_ready=self.keys_ready,
        ), None  # fmt: skip

    def _related(self, wide: Tensor, new: bool) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Prepared positions of queries and keys, their relation, and a dictionary that layers share."""
        if not new:
            self._refuse_cache()
        if new or not self.reads_positions:
            pair = self.scheme.relate(self.where, self.where) if self.reads_positions else None
            return self.where, self.where, pair, {}
        places = self._numbers(wide)[..., :1].detach() / SCALE
        ids = self.forward_pass.ids.expand(len(places), -1)
        positions = [Positions(at[0] if len(places) == 1 else at) for at in (ids[..., None], places)]
        scheme = self.scheme.for_texts(*positions)
        where_q, where_k = (scheme.prepare(pos) for pos in positions)
        pair = scheme.relate(where_q, where_k)
        if self.window is not None and wide.shape[2] >= self.window and has_undivided(pair):
            raise ValueError(
                f"{type(scheme).__name__} reads tokens before the window of {self.window} that layer {self.layer} has, "
                "which its sliding cache drops. Give such layers another scheme: llama and swap take a function of the "
                "layer."
            )
        return where_q, where_k, pair, {}

    def _numbers(self, wide: Tensor) -> Tensor:
        """Numbers of all keys, ``(B, K, M)``: the position and the values of ``keep``."""
        one = None if self.kept is None else self.kept[:, :, :1]
        return key_channels.separate(wide, self.width, 1 + (0 if one is None else one[0].numel()))[1]

    def _kept_of_all(self, wide: Tensor) -> Tensor:
        assert self.kept is not None
        shape = (self.kept.shape[1], *self.kept.shape[3:])
        return self._numbers(wide)[..., 1:].unflatten(-1, shape).movedim(1, 2)

    def _refuse_cache(self) -> None:
        name = type(self.scheme).__name__
        if self.scheme.exact == "model":
            raise ValueError(
                f"this {name} reads the whole text again when its frequencies change, which a cache of transformers "
                "cannot do. Generate with use_cache=False, or build it with exact='keys'."
            )
        if not self.scheme.claims.cacheable and self.scheme.exact is None:
            raise ValueError(f"{name} has no cached form: generate with use_cache=False.")


class PositionedCache:
    """A cache of transformers as one layer sees it: it stores transformed keys with their positions.

    Args:
        cache: The cache, or None without one.
        call: The call of the layer's attention.
    """

    def __init__(self, cache: Any, call: Call) -> None:
        self.stored, self.call = cache, call

    def update(self, key: Tensor, value: Tensor, *more: Any) -> tuple[Tensor, Tensor]:
        """Store the keys and values of new tokens; return those of all tokens."""
        key, value = self.call.as_cached(key, value)
        return (key, value) if self.stored is None else self.stored.update(key, value, *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stored, name)


def _scheme_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, scaling: float | None = None,
    dropout: float = 0.0, **named: Any,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """Attention function of transformers that applies the scheme of the layer.

    Args:
        module: The attention module.
        query: Queries ``(B, H, Q, D)``.
        key: Keys ``(B, G, K, D + C)``, with positions.
        value: Values ``(B, G, K, D)``.
        attention_mask: True, or 0 in place of -inf, where a query may attend to a key, ``(B, 1, Q, K)``; None if
            nothing is excluded or the mask is only causal.
        scaling: Factor on the logits. Default ``1 / sqrt(D)``.
        dropout: Probability of dropping an attention weight.
        **named: Other arguments of transformers.

    Returns:
        Outputs ``(B, Q, H, D)``, and attention weights ``(B, H, Q, K)`` with ``output_attentions=True``, else None.

    Raises:
        ValueError: If the model's attention does more than softmax of its logits, or the scheme did not arrive.
    """
    call = named.pop("posenc_call", None)
    if call is None:
        if not getattr(module, NAME, False) and getattr(module.config, NAME, None):
            raise ValueError(
                "this model was built from the configuration of a model with schemes, and has none. Build it by "
                "AutoModelForCausalLM.from_config(config), or give it schemes: llama(model, scheme)."
            )
        if getattr(module, NAME, False):
            raise ValueError(
                "the scheme did not reach this attention, because `position_embeddings` were copied on their way. Keep "
                "the model on one device."
            )
        return _sdpa_of_transformers(module, query, key, value, attention_mask, scaling, dropout, named)
    for name, meaning in MORE.items():
        if named.get(name) is not None:
            raise ValueError(f"the attention of this model {meaning} (`{name}`), which posenc.attention does not do.")
    weights = bool(named.get("output_attentions"))
    call.forward_pass.reached.add(call.layer)
    if isinstance(call, OwnRotation) and not weights:
        return _sdpa_of_transformers(module, query, key, value, attention_mask, scaling, dropout, named)
    causal, rule = named.get("is_causal"), _allowed(attention_mask)
    causal = getattr(module, "is_causal", True) if causal is None else causal
    if attention_mask is None and causal and query.shape[2] > 1:
        key, value = key[:, :, : query.shape[2]], value[:, :, : query.shape[2]]  # a static cache has empty places
        rule = call.forward_pass.causal(query.shape[2], call.layer, query.device)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    out, found = call.attend(query, key, value, rule, scale, dropout, weights=weights)
    return out.transpose(1, 2).contiguous(), found if weights else None


def _sdpa_of_transformers(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float | None, dropout: float,
    named: dict[str, Any],
) -> tuple[Tensor, None]:  # fmt: skip
    from transformers.integrations.sdpa_attention import sdpa_attention_forward  # torch.compile traces this form

    return sdpa_attention_forward(module, query, key, value, mask, scaling=scaling, dropout=dropout, **named)


def _allowed(mask: Tensor | None) -> Tensor | None:
    """A mask of transformers as a boolean one; masks that add other numbers than 0 and -inf are refused."""
    if mask is None or mask.dtype == torch.bool:
        return mask
    allowed = mask > LOWEST_ADDED
    if readable(mask) and bool((mask[allowed.expand_as(mask)] != 0).any()):
        raise ValueError(
            "this attention gets a mask that adds numbers to its logits, which a scheme does not do beside its own "
            "bias. Pass a boolean mask, True where a query may attend to a key."
        )
    return allowed


def register() -> None:
    """Register the attention and its mask in transformers.

    Raises:
        ValueError: If transformers has no such interface.
    """
    try:
        masks = importlib.import_module("transformers.masking_utils")
        importlib.import_module("transformers.modeling_utils").AttentionInterface.register(NAME, _scheme_attention)
    except ImportError as error:
        raise ValueError("schemes in attention need transformers 5: pip install --upgrade transformers") from error
    masks.AttentionMaskInterface.register(NAME, masks.sdpa_mask)


def _hand_over(module: Any, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any] | None:
    """Hook before a layer's attention: hand it the forward pass, and a cache that stores positions."""
    passed = getattr(named.get("position_embeddings"), "forward_pass", None)
    name = next((each for each in CACHES if each in named), CACHES[0])
    _refuse_other_cache(named.get(name), passed, getattr(module, "layer_idx", 0))
    if passed is None:
        return None
    layer = module.layer_idx
    rotation = passed.rotations[passed.numbers[layer]]
    if rotation is not None:
        cos_sin = passed.shared((passed.numbers[layer], "cosines"), layer, rotation)
        return args, named | {"position_embeddings": cos_sin, "posenc_call": OwnRotation(passed, layer)}
    chosen = getattr(module.config, "_attn_implementation", NAME)
    if chosen != NAME:
        raise ValueError(
            f"the attention of this model was set to {chosen!r}, which calls no scheme. Write "
            f"model.set_attn_implementation({NAME!r})."
        )
    call = Call(passed, layer, args[0] if args else named["hidden_states"], _window(module))
    return args, named | {name: PositionedCache(named.get(name), call), "posenc_call": call}


def _window(module: Any) -> int | None:
    """Tokens that a sliding cache of a layer keeps; None for a layer that attends to all."""
    kinds, layer = getattr(module.config, "layer_types", None), module.layer_idx
    if kinds and kinds[layer] != "sliding_attention":
        return None
    window = getattr(module, "sliding_window", None) or getattr(module.config, "sliding_window", None)
    return window if isinstance(window, int) else None


def _refuse_other_cache(cache: Any, passed: ForwardPass | None, layer: int) -> None:
    """Refuse a cache that holds keys of other schemes, and mark one with the schemes that fill it."""
    if cache is None or torch.compiler.is_compiling():
        return
    found, calls = getattr(cache, MARK, None), None if passed is None else passed.calls
    if found == calls:
        return
    filled = hasattr(cache, "get_seq_length") and int(cache.get_seq_length()) > 0
    pairs = passed is not None and not OF_PAIRS.isdisjoint(passed.schemes[passed.numbers[layer]].claims.sites)
    if filled and (found is not None or pairs):
        held, now = found or "other schemes", calls or "the rotation of its configuration"
        raise ValueError(f"this cache holds keys of {held}, and the model has {now} now. Begin with a new cache.")
    setattr(cache, MARK, calls)


def attentions(place: nn.Module) -> list[Any]:
    """The attention modules of a model by number of the layer: those that take position embeddings and a cache.

    Args:
        place: The part of the model that has ``rotary_emb``.

    Returns:
        The modules.
    """
    found = []
    for module in place.modules():
        takes = inspect.signature(module.forward).parameters
        if isinstance(getattr(module, "layer_idx", None), int) and "position_embeddings" in takes:
            found += [module] if set(CACHES) & set(takes) and hasattr(module, "scaling") else []
    return sorted(found, key=lambda module: module.layer_idx)


def attach(model: Any, place: Any, embedding: SchemeEmbedding) -> None:
    """Put schemes into the attention of a model, without checks.

    Args:
        model: The model.
        place: The part of it that has ``rotary_emb``.
        embedding: The schemes.
    """
    register()
    for module in attentions(place):
        if not getattr(module, NAME, False):
            setattr(module, NAME, True)
            module.register_forward_pre_hook(_hand_over, with_kwargs=True)
    place.rotary_emb = embedding
    model.set_attn_implementation(NAME)


def made_for(model: Any, place: Any, schemes: Scheme | Callable[[int], Scheme], kind: Kind) -> SchemeEmbedding:
    """The schemes of a model's layers, after checks.

    Args:
        model: The model.
        place: The part of it that has ``rotary_emb``.
        schemes: One scheme, or a function from the number of a layer to its scheme.
        kind: Conventions of the model's own rotation.

    Returns:
        The module in place of ``rotary_emb``.

    Raises:
        ValueError: If the model has no attention that takes a scheme, or a scheme does not fit it.
    """
    modules, name = attentions(place), type(model).__name__
    if not modules or not hasattr(model, "set_attn_implementation"):
        raise ValueError(
            f"{name} has no attention of transformers' AttentionInterface that gets `position_embeddings` and a cache, "
            "so only a rotation can replace its own."
        )
    attending = [module.layer_idx for module in modules]  # other layers, as convolutions, have no attention
    make = schemes if isinstance(schemes, Scheme) else layers(schemes)
    by_layer = {layer: make if isinstance(make, Scheme) else make(layer) for layer in attending}
    distinct = list({id(scheme): scheme for scheme in by_layer.values()}.values())
    for scheme in distinct:
        _refuse_unfit(scheme, model, modules[0])
    number = {id(scheme): i for i, scheme in enumerate(distinct)}
    numbers = [number[id(by_layer[layer])] if layer in by_layer else 0 for layer in range(max(attending) + 1)]
    return SchemeEmbedding(distinct, numbers, kind).train(model.training)


def _refuse_unfit(scheme: Scheme, model: Any, module: Any) -> None:
    name = type(scheme).__name__
    refuse_sites(scheme, SITES, "a model of Llama's kind gets a scheme in its attention")
    if scheme.claims.axes not in (None, 1):
        raise ValueError(f"{name} reads {scheme.claims.axes} axes per position, and a text has one.")
    if scheme.draws:
        raise ValueError(f"{name} draws random numbers at every step, so cached keys would not fit new queries.")
    config = model.config.get_text_config()
    heads = int(config.num_attention_heads)
    key_heads = int(getattr(config, "num_key_value_heads", None) or heads)
    if scheme.head_count not in (None, 1, heads, key_heads):
        raise ValueError(
            f"this {name} is built for {scheme.head_count} heads, and the model has {heads} query heads and "
            f"{key_heads} key heads. Build it with heads={heads}."
        )
    width = getattr(module, "head_dim", None) or config.hidden_size // heads
    if scheme.head_width not in (None, width):
        raise ValueError(
            f"this {name} acts on heads of width {scheme.head_width}, and the model's have {width}. Build it for a "
            f"head width of {width}."
        )


def refuse_unreached(model: Any, place: Any, embedding: SchemeEmbedding) -> None:
    """Refuse a model whose attention does not apply the schemes in every layer, by a forward pass of two tokens.

    Args:
        model: The model, after ``attach``.
        place: The part of it that has ``rotary_emb``.
        embedding: The schemes.

    Raises:
        ValueError: If a layer did not apply its scheme, or refused it.
    """
    embedding.reached.clear()
    ids = torch.tensor([[0, 1]], device=model.get_input_embeddings().weight.device)
    with torch.no_grad(), torch.random.fork_rng():
        place(input_ids=ids, use_cache=False)
    missing = sorted({module.layer_idx for module in attentions(place)} - embedding.reached)
    if missing:
        raise ValueError(
            f"layer {missing[0]} of {type(model).__name__} does not attend by transformers' AttentionInterface, so a "
            "scheme cannot act there."
        )
