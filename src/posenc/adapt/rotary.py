"""Rotary embeddings of transformers models that compute cosines and sines in one ``rotary_emb``: Llama and others.

Two conventions differ among these models. Both are measured by calling functions of the model. The first is the pairs
of channels that rotate together, measured with the model's ``apply_rotary_pos_emb``. The second is the order of the
cosines, ``(c_0 c_1 .. c_0 c_1 ..)``, ``(c_0 c_0 c_1 c_1 ..)`` or ``(c_0 c_1 ..)``, measured with its ``rotary_emb``.
Llama has halves and the first order, GLM interleaved pairs and the first order, Cohere interleaved pairs and the second
order, gpt-oss halves and the third order.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from posenc.adapt.attention_interface import NAME, SchemeEmbedding, attach, made_for, refuse_unreached
from posenc.adapt.compatibility import STRANGE, refuse_no_model, refuse_no_values
from posenc.adapt.configuration import configured
from posenc.adapt.configuration_writing import Rotation, describable, write_rotation
from posenc.adapt.rotary_embedding import (
    Kind,
    Layout,
    Order,
    Rotary,
    join_channels,
    own_application,
    own_rotation,
    pair_channels,
    repeat_numbers,
)
from posenc.adapt.saved_scheme import remove_schemes, write_schemes
from posenc.length_rope import LengthRoPE
from posenc.scheme import Scheme
from posenc.schemes.rope import RoPE

Model = TypeVar("Model", bound=nn.Module)
NEAR = (0, 1, 5)
"""Positions at which a model's cosines and sines are measured."""
ROUNDED = 8
"""Allowed difference between two computations of an angle of 1 rad, in units of the dtype's epsilon."""


def llama(model: Model, scheme: Scheme | Callable[[int], Scheme] | None = None, *, length: int | None = None) -> Model:
    """Replace the rotary embedding of a transformers model of Llama's kind by a scheme.

    A model is of Llama's kind if its blocks get cosines and sines from one module ``rotary_emb``. A rotation replaces
    that module and is written into ``model.config``: ``save_pretrained`` saves it, and ``from_pretrained`` loads a
    model with it, also without posenc. Any other scheme for text acts in the attention of every layer, in place of the
    model's own rotation. Train the model then, as its weights know another encoding. ``save_pretrained`` writes such a
    scheme and its weights too, and ``posenc.adapt.saved_class(path).from_pretrained(path)`` loads them.

    Args:
        model: The model, also within ``torch.compile``, ``DataParallel`` or a module of yours. Its ``rotary_emb`` is
            replaced in place.
        scheme: A scheme that rotates q and k alike and pairs channels as the model does: ``RoPE(d, pairing="half")``
            for Llama, ``RoPE(d)`` for Cohere. Or a scheme that acts elsewhere in attention, such as ``ALiBi(heads)``,
            ``T5Bias(heads)`` or ``Shaw(d)``; or a function ``layer -> scheme``, such as
            ``lambda layer: FoX(width, heads)``. Default: ``configured(model.config, length=length)``, the rotation that
            the configuration describes. It does not change the logits of a model that has it.
        length: Length in tokens of the longest text that the model will read. Without a scheme it fixes the frequencies
            of the rotations "dynamic" and "longrope". With a scheme it becomes ``max_position_embeddings`` if that is
            smaller. Default None: those frequencies depend on the length of each text, and cached keys are rotated to
            them at every step (``posenc.LengthRoPE``).

    Returns:
        The same model.

    Raises:
        ValueError: If the model is not of Llama's kind, has several rotations or no values ("meta"); if the scheme does
            not fit it; or, without a scheme, if the model's angles differ from those that its configuration describes.

    Example:
        >>> import torch
        >>> from posenc import RoPE
        >>> from posenc.adapt import llama
        >>> class Angles(torch.nn.Module):  # stands for the rotary embedding of a model of transformers
        ...     def forward(self, x, ids):
        ...         angle = ids[..., None] * 10000.0 ** -(torch.arange(8) % 4 / 4)
        ...         return angle.cos(), angle.sin()
        >>> model = torch.nn.Linear(8, 8)
        >>> model.rotary_emb = Angles()
        >>> cos, sin = llama(model, RoPE(8, pairing="half", base=500.0)).rotary_emb(torch.ones(1), torch.tensor([[7]]))
        >>> cos.shape
        torch.Size([1, 1, 8])
    """
    refuse_no_model(model, "llama")
    inside = _inside(model)
    if inside is not model:
        llama(inside, scheme, length=length)
        return model
    if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 2):
        raise ValueError(f"`length` is a number of tokens, a whole number of at least 2; got {length!r}.")
    refuse_no_values(model, "llama")
    places = [module for module in model.modules() if isinstance(getattr(module, "rotary_emb", None), nn.Module)]
    if not places:
        raise ValueError(
            f"{type(model).__name__} has no part called `rotary_emb`, so this is not a model of Llama's kind."
        )
    config = getattr(model, "config", None)
    rope = configured(config, length=length) if scheme is None else scheme  # its errors come before measurements
    kinds = [_kind(module) for module in places]
    _refuse_other_rotations(model, places)
    if scheme is not None and _acts_in_attention(model, scheme, kinds):
        embedding = _put_into_attention(model, places, scheme, kinds)
        _warn_without_order(embedding)
        _warn_of_other_pairs(embedding)
        write_schemes(model, embedding)
        _write_length(config, length)
        return model
    if scheme is None:
        rope = configured(config, length=length, pairing=kinds[0].pairs)
        long = [2 * int(getattr(config, "max_position_embeddings", 0))] if rope.exact else []
        for module, kind in zip(places, kinds, strict=True):
            for tried in (length or NEAR[-1] + 1, *long):
                _refuse_other_angles(module, kind, rope, tried)
        if rope.exact:
            _put_own_into_attention(model, places, rope, kinds)
            return model
    assert isinstance(rope, Scheme), "a function of the layer acts in attention"
    rope = rope.to(next(model.parameters()).device)
    made = [Rotary(rope, kind) for kind in kinds]
    remove_schemes(model)
    for module, rotary in zip(places, made, strict=True):
        module.rotary_emb = rotary.train(module.training)
    if scheme is not None:
        write_rotation(config, rope, length)
    return model


def _acts_in_attention(model: nn.Module, scheme: Scheme | Callable[[int], Scheme], kinds: list[Kind]) -> bool:
    """True for a scheme that a rotation and its configuration cannot express; the model must have such attention."""
    if not isinstance(scheme, Scheme) or scheme.exact:
        return True
    if not hasattr(model, "set_attn_implementation"):
        return False
    fits = all(own_rotation(scheme, kind) is not None for kind in kinds)
    if fits or isinstance(scheme, Rotation):
        return fits and len(kinds) == 1 and not describable(scheme)
    return True


def _inside(model: nn.Module) -> nn.Module:
    """The model of transformers within ``torch.compile``, ``DataParallel`` or a module of one's own; else the model."""
    found = [(name, each) for name, each in model.named_modules() if hasattr(type(each), "save_pretrained")]
    names = [f"{name}." if name else "" for name, _ in found]
    outer = [each for name, each in found if sum(f"{name}.".startswith(other) for other in names) == 1]
    return outer[0] if len(outer) == 1 else model


def _warn_of_other_pairs(embedding: SchemeEmbedding) -> None:
    """Warn of parts of schemes that rotate other pairs of channels than the weights of the model know."""
    pairs = embedding.kind.pairs
    for part in (each for scheme in embedding.distinct for each in scheme.modules()):
        if isinstance(part, Rotation) and getattr(part, "pairing", pairs) != pairs:
            warnings.warn(
                f"a {type(part).__name__} of these schemes rotates other pairs of channels than this model, so trained "
                f'weights do not fit it. Write pairing="{pairs}".',
                UserWarning,
                stacklevel=3,
            )
            return


def _warn_without_order(embedding: SchemeEmbedding) -> None:
    """Warn of schemes that only scale logits or hide keys: the model's rotation is gone and nothing is in its place."""
    claims = [scheme.claims for scheme in embedding.distinct]
    if all(each.sites == {"mask"} or (each.sites == {"q"} and not each.isometric) for each in claims):
        name = type(embedding.scheme).__name__
        pairing = "" if embedding.kind.pairs == "half" else f', pairing="{embedding.kind.pairs}"'
        warnings.warn(
            f"{name} replaces the rotation of this model and does not say in which order tokens come. To keep the "
            f"rotation write llama(model, Sum([configured(model.config{pairing}), {name}(..)])).",
            UserWarning,
            stacklevel=3,
        )


def _put_into_attention(
    model: nn.Module,
    places: list[Any],
    scheme: Scheme | Callable[[int], Scheme],
    kinds: list[Kind],
) -> SchemeEmbedding:
    """Attach schemes to the attention of a model."""
    if len(places) > 1:
        raise ValueError(f"{type(model).__name__} has {len(places)} parts with a rotation; schemes replace one.")
    place, before, attended = places[0], places[0].rotary_emb, getattr(model, "config", None)
    attended = getattr(attended, "_attn_implementation", None)
    embedding = made_for(model, place, scheme, kinds[0]).to(next(model.parameters()).device)
    embedding.find_rotations()
    attach(model, place, embedding)
    try:
        refuse_unreached(model, place, embedding)
    except Exception as error:
        place.rotary_emb = before
        cast(Any, model).set_attn_implementation(attended)
        if isinstance(error, ValueError):
            raise
        raise ValueError(
            f"the attention of {type(model).__name__} does not work with a scheme: {type(error).__name__}: {error}"
        ) from error
    return embedding


def _put_own_into_attention(model: nn.Module, places: list[Any], rope: Scheme, kinds: list[Kind]) -> None:
    """Attach a rotation that depends on the length of the text and that the model's configuration describes already."""
    try:
        _put_into_attention(model, places, rope, kinds)
    except ValueError as error:
        raise ValueError(
            f"{error} This rotation depends on the length of the text: pass length=.., that of the longest text, to "
            "fix it."
        ) from error
    remove_schemes(model)
    cast(Any, model).set_attn_implementation(NAME)


def _write_length(config: Any, length: int | None) -> None:
    if length is not None and length > (getattr(config, "max_position_embeddings", None) or 0):
        config.max_position_embeddings = length


def _refuse_other_rotations(model: nn.Module, places: list[Any]) -> None:
    found = [module.rotary_emb for module in places]
    kinds = {type(rotary) for rotary in found}
    more = [name for name, part in model.named_modules() if type(part) in kinds and not any(part is f for f in found)]
    if more:
        raise ValueError(
            f"{type(model).__name__} also rotates by {more[0]}, besides its `rotary_emb`, and would still do so. "
            "Models with one rotation for all layers are adapted here."
        )


def _kind(module: Any) -> Kind:
    if isinstance(module.rotary_emb, Rotary | SchemeEmbedding):
        return module.rotary_emb.kind
    try:
        cos, sin = _cos_sin(module, NEAR)
        d = cos.shape[-1]
        halves = torch.equal(*cos.chunk(2, -1)) and torch.equal(*sin.chunk(2, -1))
        twos = torch.equal(cos[..., 0::2], cos[..., 1::2]) and torch.equal(sin[..., 0::2], sin[..., 1::2])
    except STRANGE as error:
        raise ValueError(
            f"the `rotary_emb` of {type(module).__name__} makes no cosines and sines of tokens and position ids alone "
            f"({error}), so it is not of Llama's kind."
        ) from error
    numbers: Order = "half" if halves else "interleaved" if twos else "once"
    turning = 2 * d if numbers == "once" else d
    pairs = _pairs_of(module, turning, numbers)
    if numbers == "once" and pairs is None:
        raise ValueError(
            f"the `rotary_emb` of {type(module).__name__} gives the two channels of a pair different numbers, so it is "
            "not of Llama's kind."
        )
    return Kind(turning, pairs or "half", numbers)


def _cos_sin(module: Any, *texts: Sequence[int]) -> tuple[Tensor, Tensor]:
    """A model's cosines and sines at the positions of the last text. Calls a copy, because some store the length."""
    rotary, device = copy.deepcopy(module.rotary_emb), next(module.parameters()).device
    with torch.no_grad():
        turns = [
            rotary(torch.zeros(1, len(ids), 1, device=device), torch.tensor([ids], device=device)) for ids in texts
        ]
    cos, sin = turns[-1]
    return cos.cpu(), sin.cpu()


def _refuse_other_angles(module: Any, kind: Kind, rope: RoPE | LengthRoPE, length: int) -> None:
    """Refuses a model whose cosines and sines, for a text of that length, are not those of its configuration."""
    if isinstance(
        module.rotary_emb, Rotary | SchemeEmbedding
    ):  # a scheme that replaced the model's rotation may differ from it
        return
    ids = [*(place for place in NEAR if place < length), length - 1]
    theirs = torch.stack(_cos_sin(module, NEAR, ids))  # a short text first, which resets a stored length
    if kind.turning == rope.head_dim:
        at = torch.tensor([ids])
        ours = torch.stack(Rotary(rope, kind)(torch.zeros(1), at))
        if bool(((ours - theirs).abs() <= _rounding(module.rotary_emb, theirs.dtype, kind, rope, at)).all()):
            return
    raise ValueError(
        f"the `rotary_emb` of {type(module).__name__} rotates {kind.turning} channels by other angles than its "
        "configuration describes, so posenc does not know this rotation. Build the scheme that rotates as the "
        f'model does and pass it: llama(model, RoPE({kind.turning}, .., pairing="{kind.pairs}")).'
    )


def _rounding(rotary: nn.Module, dtype: torch.dtype, kind: Kind, rope: RoPE | LengthRoPE, at: Tensor) -> Tensor:
    """Largest difference of cosines and sines ``(1, N, d)`` of equal rotations, from the dtypes of a model.

    A model in bfloat16 may have rounded its inverse frequencies, each by 2**-8 of its value. Its cosines and sines may
    be rounded too.
    """
    fixed = rope.rope(max(2, int(at.max()) + 1)) if isinstance(rope, LengthRoPE) else rope
    theta = repeat_numbers(torch.tensor(fixed.theta), kind.numbers)
    position = at[..., None]
    allowed = ROUNDED * torch.finfo(torch.float32).eps * (1 + position) + torch.zeros_like(theta)
    narrow = [torch.finfo(each.dtype) for each in rotary.buffers() if _is_narrow(each.dtype)]
    stored = [torch.finfo(each.dtype) for each in rotary.buffers() if _is_narrow(each.dtype) and each.ndim > 1]
    made = [torch.finfo(dtype)] if _is_narrow(dtype) else []
    for each in (*narrow[:1], *made, *made):  # a model with cosines in this dtype may round its angles in it too
        allowed = allowed + each.eps / 2 * position * theta.clamp(min=each.tiny)
    for each in (*stored[:1], *made):
        allowed = allowed + each.eps / 2
    return max(1.0, fixed.attention_factor) * allowed


def _is_narrow(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point and torch.finfo(dtype).eps > torch.finfo(torch.float32).eps


def _pairs_of(module: Any, d: int, numbers: Order) -> Layout | None:
    """The pairs that the model rotates, measured with its ``apply_rotary_pos_emb``; None if it has none that does."""
    tried = own_application(module)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 1, 3, d, generator=generator)
    angle = torch.rand(1, 3, d // 2, generator=generator)
    cos, sin = (repeat_numbers(t, numbers) for t in (angle.cos(), angle.sin()))
    layouts: tuple[Layout, ...] = ("half", "interleaved")
    try:
        found = None if tried is None else tried(q, k, cos, sin)
        logits = None if found is None else found[0] @ found[1].mT  # it may return channels in another order
    except STRANGE:
        logits = None
    for pairs in layouts:
        own = _turned(q, angle[:, None], pairs) @ _turned(k, angle[:, None], pairs).mT
        if logits is not None and logits.shape == own.shape and torch.allclose(logits, own, atol=1e-4):
            return pairs
    return None


def _turned(x: Tensor, angle: Tensor, pairs: Layout) -> Tensor:
    a, b = pair_channels(x, pairs)
    return join_channels(a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin(), pairs)
