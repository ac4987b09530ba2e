"""A stand-in of Llama's kind, and the configurations that it may have."""

from types import SimpleNamespace

import torch
from torch import nn


class TheirRotary(nn.Module):
    """Cosines and sines as transformers' models make them: float32, halves."""

    def __init__(self, theta: torch.Tensor, scaling: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("inv_freq", theta.float(), persistent=False)
        self.scaling = scaling

    def forward(self, x, position_ids):
        angle = position_ids[..., None].float() * self.inv_freq
        angle = torch.cat([angle, angle], -1)
        return (angle.cos() * self.scaling).to(x.dtype), (angle.sin() * self.scaling).to(x.dtype)


class Speaker(nn.Module):
    """One causal block that turns the first ``d`` channels of its heads by what its ``rotary_emb`` says."""

    def __init__(self, rotary: nn.Module, config: SimpleNamespace | None = None) -> None:
        super().__init__()
        self.rotary_emb, self.config = rotary, config
        self.qkv = nn.Linear(16, 48)

    def forward(self, x, position_ids):
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        cos, sin = (t[:, None] for t in self.rotary_emb(x, position_ids))
        d = cos.shape[-1]

        def turn(t):
            a, b = t[..., :d].chunk(2, -1)
            return torch.cat([t[..., :d] * cos + torch.cat([-b, a], -1) * sin, t[..., d:]], -1)

        return nn.functional.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=True)


def config(**options) -> SimpleNamespace:
    return SimpleNamespace(**{"hidden_size": 16, "num_attention_heads": 2, "max_position_embeddings": 64} | options)


def theta(base: float, d: int = 8) -> torch.Tensor:
    return base ** -(torch.arange(0, d, 2, dtype=torch.float64) / d)
