"""``nn.MultiheadAttention`` with a scheme, and the same weights, arguments and masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.adapt.compatibility import refuse_no_model, refuse_sites
from posenc.attention import attend, attend_with_weights
from posenc.models.layers import layers
from posenc.positions import Positions, as_positions, readable, sequence
from posenc.scheme import Scheme

Model = TypeVar("Model", bound=nn.Module)


class Attention(nn.Module):
    """``nn.MultiheadAttention`` with a scheme. It has the same weights and arguments.

    With ``NoPE()`` it has the same output. A query that may attend to no key gives the output bias, where torch's
    module gives NaN.

    Args:
        module: The module whose weights are used. They are shared, not copied.
        scheme: The scheme. It may act at "q", "k", "v", "o", "bias", "value_bias" and "mask".
        positions: Function from a number of tokens to their positions, for queries and keys. Default ``sequence``;
            for an image ``lambda n: grid(14, 14)``.

    Raises:
        ValueError: If the scheme acts outside attention or needs another head width, or if the module has ``bias_k`` or
            ``add_zero_attn``.

    Example:
        >>> import torch
        >>> from posenc import RoPE
        >>> from posenc.adapt import Attention
        >>> attention = Attention(torch.nn.MultiheadAttention(16, 2, batch_first=True), RoPE(8))
        >>> x = torch.randn(1, 5, 16)
        >>> attention(x, x, x, need_weights=False)[0].shape
        torch.Size([1, 5, 16])
    """

    in_proj_bias = None  # torch's encoder layers then skip their fused path, which would not call this module

    def __init__(
        self, module: nn.MultiheadAttention, scheme: Scheme, *, positions: Callable[[int], Positions] = sequence
    ) -> None:
        super().__init__()
        refuse_sites(scheme, {"q", "k", "v", "o", "bias", "value_bias", "mask"}, "nn.MultiheadAttention attends")
        if not isinstance(module, nn.MultiheadAttention):
            raise ValueError(f"Attention takes the weights of a nn.MultiheadAttention; got {module!r}.")
        if module.bias_k is not None or module.add_zero_attn:
            raise ValueError("keys that are not tokens have no position: bias_k and add_zero_attn cannot be adapted.")
        if scheme.head_width not in (None, module.head_dim):
            raise ValueError(
                f"{type(scheme).__name__} acts on heads of width {scheme.head_width} and the module's have "
                f"{module.head_dim}. Build it for a head width of {module.head_dim}."
            )
        if scheme.head_count not in (None, 1, module.num_heads):
            raise ValueError(
                f"this {type(scheme).__name__} is built for {scheme.head_count} heads, and the module has "
                f"{module.num_heads}. Build it with heads={module.num_heads}."
            )
        self.module, self.scheme, self.positions = module, scheme, positions
        self.batch_first, self.num_heads, self.embed_dim = module.batch_first, module.num_heads, module.embed_dim
        self._qkv_same_embed_dim = module._qkv_same_embed_dim
        self.train(module.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The arguments and results of ``nn.MultiheadAttention``.

        Args:
            query: Queries ``(B, Q, E)``, ``(Q, B, E)`` without ``batch_first``, or ``(Q, E)`` without a batch.
            key: Keys, with K tokens in place of Q.
            value: Values of the K tokens.
            key_padding_mask: True or -inf for padding, ``(B, K)``. Default: no padding.
            need_weights: Also return attention weights, which is slower. Default True.
            attn_mask: True or -inf where a query may not attend to a key, ``(Q, K)`` or ``(B * H, Q, K)``. Default: no
                mask.
            average_attn_weights: Average the weights over heads. Default True.
            is_causal: States that ``attn_mask`` is causal. Needs that mask. Default False.

        Returns:
            The output with the shape of ``query``, and the weights ``(B, Q, K)``, or ``(B, H, Q, K)`` if not averaged,
            or None.

        Raises:
            ValueError: If a mask has numbers other than 0 and -inf, ``is_causal`` comes without a mask, or
                ``positions`` returns another number of positions.
        """
        alone, first = query.dim() == 2, self.batch_first or query.dim() == 2
        q, k, v = (t[None] if alone else t if first else t.transpose(0, 1) for t in (query, key, value))
        q_pos = self._positions(q, "queries")
        k_pos = q_pos if query is key else self._positions(k, "keys")
        scheme = self.scheme.for_texts(q_pos, k_pos)
        where_q = scheme.prepare(q_pos)
        where_k = where_q if query is key else scheme.prepare(k_pos)
        pair, kept = scheme.relate(where_q, where_k), scheme.keep(k, where_k)
        q, k, v = (t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for t in self._projected(q, k, v))
        if is_causal and attn_mask is None:
            raise ValueError("is_causal only describes attn_mask; pass that mask too, or use a causal scheme.")
        mask = _seen(attn_mask, key_padding_mask[None] if alone and key_padding_mask is not None else key_padding_mask,
                     self.num_heads)  # fmt: skip
        dropout = self.module.dropout if self.training else 0.0
        weights = None
        if need_weights or dropout:
            out, weights = attend_with_weights(
                q, k, v, self.scheme, where_q, where_k, pair, kept=kept, mask=mask, dropout=dropout
            )
        else:
            out = attend(q, k, v, self.scheme, where_q, where_k, pair, kept=kept, mask=mask)
        out = self.module.out_proj(out.transpose(1, 2).flatten(2))
        out = out[0] if alone else out if first else out.transpose(0, 1)
        if not need_weights or weights is None:
            return out, None
        weights = weights.mean(1) if average_attn_weights else weights
        return out, weights[0] if alone else weights

    def _positions(self, x: Tensor, what: str) -> Positions:
        pos = as_positions(self.positions(x.shape[1]))
        if pos.count != x.shape[1]:
            raise ValueError(
                f"there are {x.shape[1]} {what}, and `positions({x.shape[1]})` made {pos.count} positions."
            )
        return pos.to(x.device)

    def _projected(self, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
        module = self.module
        if module._qkv_same_embed_dim:
            weights = module.in_proj_weight.chunk(3)
        else:
            weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        biases = (None,) * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
        return [functional.linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True)]


def multihead(
    model: Model,
    schemes: Scheme | Callable[[int], Scheme],
    *,
    positions: Callable[[int], Positions] = sequence,
) -> Model:
    """Put a scheme into every ``nn.MultiheadAttention`` of a model, such as a ``nn.TransformerEncoder``.

    A second call replaces the schemes. Weights have the name of the attention followed by ``module`` then, as in
    ``self_attn.module.in_proj_weight``: load a checkpoint of the original model before this call.

    Args:
        model: The model. Its attention modules are replaced by ``Attention`` in place.
        schemes: One scheme that all attention modules share, or a function from the number of an attention module, in
            the order of ``model.modules()``, to its scheme.
        positions: Function from a number of tokens to their positions. Default ``sequence``.

    Returns:
        The same model.

    Raises:
        ValueError: If the model has no ``nn.MultiheadAttention``, or a scheme does not fit one.

    Example:
        >>> import torch
        >>> from posenc import RoPE
        >>> from posenc.adapt import multihead
        >>> layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        >>> encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        >>> multihead(encoder, RoPE(8))(torch.randn(1, 5, 16)).shape
        torch.Size([1, 5, 16])
    """
    refuse_no_model(model, "multihead")
    if not callable(positions):
        raise ValueError(f"`positions` is a function from a number of tokens to positions; got {positions!r}.")
    found = [
        (parent, name, child)
        for parent in model.modules()
        if not isinstance(parent, Attention)
        for name, child in parent.named_children()
        if isinstance(child, nn.MultiheadAttention | Attention)
    ]
    if not found:
        raise ValueError(
            f"{type(model).__name__} has no nn.MultiheadAttention inside. One alone becomes Attention(module, scheme)."
        )
    make = schemes if isinstance(schemes, Scheme) else layers(schemes)
    for number, (parent, name, found_child) in enumerate(found):
        child = found_child.module if isinstance(found_child, Attention) else found_child
        scheme = (make if isinstance(make, Scheme) else make(number)).to(child.out_proj.weight.device)
        setattr(parent, name, Attention(child, scheme, positions=positions))
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False  # nested tensors have no positions
    return model


def _seen(attn_mask: Tensor | None, padding: Tensor | None, heads: int) -> Tensor | None:
    """Boolean mask, True where a query may attend to a key, from torch's masks, which have True or -inf elsewhere."""
    mask = None if attn_mask is None else _visible("attn_mask", attn_mask)
    if mask is not None and mask.dim() == 3:
        mask = mask.unflatten(0, (-1, heads))
    keys = None if padding is None else _visible("key_padding_mask", padding)[:, None, None]
    return keys if mask is None else mask if keys is None else mask & keys


def _visible(name: str, mask: Tensor) -> Tensor:
    if mask.dtype == torch.bool:
        return ~mask
    hides = ((mask == 0) | (mask == -torch.inf)).all()
    message = f"{name} adds numbers other than 0 and -inf to the logits: that is a bias, which a scheme makes."
    if torch.compiler.is_compiling():
        torch.ops.aten._assert_async.msg(hides, message)  # a branch would break the graph
    elif readable(mask) and not bool(hides):
        raise ValueError(message)
    return mask == 0
