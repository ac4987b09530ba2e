"""The encoder as one would write it from torch's own layers: the baseline that is timed, and the reference that is
compared with.

It computes the whole last layer, and reads some tokens off its end. Encodings are rows added to the tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from posenc.models.encoder import Blocks, EncoderConfig

ACTIVATIONS = {"relu": functional.relu, "gelu": functional.gelu}


class Activated(nn.Linear):
    """A linear layer with an activation after it."""

    activation = "gelu"

    def forward(self, input: Tensor) -> Tensor:
        return ACTIVATIONS[self.activation](super().forward(input))


class PlainEncoder(nn.Module):
    """``EncoderConfig``'s model out of ``nn.TransformerEncoderLayer``; for training mode, where all is computed openly.

    max_len, tables: so many learned tables of positions, of so many rows; 0 tables for none, 1 for one at the input or
    shared by all blocks.
    """

    def __init__(self, config: EncoderConfig, *, tables: int, max_len: int = 16) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Linear(config.channels, config.dim)
        self.tables = nn.ParameterList(torch.zeros(max_len, config.dim) for _ in range(tables))
        self.encoder = nn.TransformerEncoder(
            plain_layer(config), config.depth, plain_norm(config), enable_nested_tensor=False
        )
        self.head = nn.Linear(config.dim, config.classes)

    def forward(self, x: Tensor, index: Tensor, probe: Tensor) -> Tensor:
        """x: ``(B, N, channels)``; index: the table row of each token, ``(N,)``; probe: ``(B,)``. Logits."""
        y = self.through(self.tokens(x), index)
        read = probe if self.config.read_out == "probe" else torch.full_like(probe, x.shape[1] - 1)
        return self.head(y[torch.arange(len(y), device=y.device), read])

    def through(self, y: Tensor, index: Tensor) -> Tensor:
        """All layers, of all tokens."""
        if not self.tables:
            return self.encoder(y)
        if self.config.placement == "input":
            return self.encoder(y + self.tables[0][index])
        for number, layer in enumerate(self.encoder.layers):
            y = layer(y + self.tables[min(number, len(self.tables) - 1)][index])
        return y if self.encoder.norm is None else self.encoder.norm(y)

    def take(self, encoder: Blocks) -> None:
        """The weights of a model of ours."""
        own = dict(self.named_parameters())
        with torch.no_grad():
            for name, value in encoder.named_parameters():
                if plain_name(name, self.config) in own:
                    own[plain_name(name, self.config)].copy_(value)


class PlainMasked(PlainEncoder):
    """``MaskedEncoder`` the same way: a prediction of every token, those of the hidden ones read off the end."""

    def __init__(self, config: EncoderConfig, *, tables: int, max_len: int) -> None:
        super().__init__(config, tables=tables, max_len=max_len)
        self.hidden_token = nn.Parameter(torch.zeros(config.dim))

    def forward(self, x: Tensor, index: Tensor, probe: Tensor) -> Tensor:
        """x: ``(B, N, F)``; index: the table row of each token; probe: the hidden tokens, ``(B, M)``. Predictions
        ``(B, M, F)``."""
        away = torch.zeros(x.shape[:2], dtype=torch.bool).scatter(1, probe, True)[..., None]
        every = self.head(self.through(torch.where(away, self.hidden_token, self.tokens(x)), index))
        return every.gather(1, probe[..., None].expand(-1, -1, every.shape[-1]))


def plain_layer(config: EncoderConfig) -> nn.TransformerEncoderLayer:
    layer = nn.TransformerEncoderLayer(
        config.dim,
        config.heads,
        config.hidden,
        dropout=0.0,
        activation=ACTIVATIONS[config.activation],
        batch_first=True,
        norm_first=config.norm == "pre",
    )
    bias = config.projection_bias
    layer.self_attn = nn.MultiheadAttention(config.dim, config.heads, bias=bias, batch_first=True)
    if not config.output_projection:
        nn.init.eye_(layer.self_attn.out_proj.weight)  # torch's layer always has one; its bias starts at zero
        layer.self_attn.out_proj.requires_grad_(False)
    if config.second_activation:
        layer.linear2 = Activated(config.hidden, config.dim)
        layer.linear2.activation = config.activation
    return layer


def plain_norm(config: EncoderConfig) -> nn.LayerNorm | None:
    return nn.LayerNorm(config.dim) if config.norm == "pre" else None


INSIDE = {
    "qkv.weight": "self_attn.in_proj_weight",
    "qkv.bias": "self_attn.in_proj_bias",
    "out.weight": "self_attn.out_proj.weight",
    "out.bias": "self_attn.out_proj.bias",
    "up.weight": "linear1.weight",
    "up.bias": "linear1.bias",
    "down.weight": "linear2.weight",
    "down.bias": "linear2.bias",
}


def plain_name(name: str, config: EncoderConfig) -> str:
    """What a parameter of ``Encoder`` is called in ``PlainEncoder``."""
    kind, _, rest = name.partition(".")
    if kind == "blocks":
        number, _, inside = rest.partition(".")
        return f"encoder.layers.{number}.{INSIDE.get(inside, inside)}"
    if kind == "schemes":
        return f"tables.{rest.partition('.')[0]}"
    return f"encoder.norm.{rest}" if kind == "norm" else name


def differences(encoder: Blocks, plain: PlainEncoder, ours: Tensor, theirs: Tensor) -> dict[str, float]:
    """The largest difference of the logits and of every gradient, by name, over the largest entry of the plain one.

    Both losses must have been through ``backward``. A missing gradient counts as zero.
    """
    found = {"logits": relative(ours, theirs)}
    own = dict(plain.named_parameters())
    for name, value in encoder.named_parameters():
        other = own[plain_name(name, plain.config)]
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in (value, other)]
        found[name] = relative(grads[0], grads[1])
    return found


def relative(a: Tensor, b: Tensor) -> float:
    scale = float(b.detach().abs().max())
    return float((a.detach() - b.detach()).abs().max()) / (scale or 1.0)
