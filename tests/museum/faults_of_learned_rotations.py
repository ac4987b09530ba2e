"""Faults of rotations with something of their own: trained frequencies, and frequencies of each head."""

from __future__ import annotations

import dataclasses

import torch
from faults_of_rotations import CLAIMS, Rotary
from torch import Tensor, nn

from posenc.positions import Positions
from posenc.scheme import Head, per_head


class Trained(Rotary):
    """The same with trained frequencies, which no cast may round."""

    wide = frozenset({"speed"})

    def __init__(self, theta: tuple[float, float]) -> None:
        super().__init__(theta)
        self.speed = nn.Parameter(torch.tensor(theta))
        self.claims = dataclasses.replace(CLAIMS, learned=True)

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.speed.copy_(torch.tensor(self.theta))

    def angles(self, pos: Positions) -> Tensor:
        return pos.precise() * self.speed.double()

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: int) -> Tensor:
        if site not in ("q", "k"):
            return x
        z = torch.view_as_complex(x.unflatten(-1, (2, 2))) * torch.polar(torch.ones(()).double(), p * self.speed)
        return torch.view_as_real(z).flatten()


class TrainedAndRounded(Trained):
    """rope-vit, timm: trained directions are parameters as all others, so ``.bfloat16()`` rounds them by turns."""

    caught_by = "precision.half_precision_does_not_move_tokens"

    wide = frozenset()


class WideIsMisspelt(Trained):
    """Made up for the check: a name in ``wide`` that the scheme has not, so its own is rounded after all."""

    caught_by = "precision.named_parameters_stay_wide"

    wide = frozenset({"speeds"})


class TiedUnderTwoNames(Trained):
    """Made up for the check: one tensor under two names, which a file of named tensors refuses to hold."""

    caught_by = "state.safetensors_hold_the_state"

    def __init__(self, theta: tuple[float, float]) -> None:
        super().__init__(theta)
        self.inv_freq = self.speed


class PerHead(Rotary):
    """Frequencies of each of four heads, ``(1 + h) theta``; query heads that share a key head share its frequencies."""

    def __init__(self, theta: tuple[float, float]) -> None:
        super().__init__(theta)
        self.claims = dataclasses.replace(CLAIMS, sharing="head")

    def own(self, where: Tensor, x: Tensor) -> Tensor:
        return per_head(where * (1 + torch.arange(4))[:, None, None], x, type(self).__name__)

    def transform(self, x: Tensor, where: Tensor, site: str) -> Tensor:
        return super().transform(x, self.own(where, x), site)

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        return super().define_transform(x, p * (1 + head.among(4)), site, head)


class HeadsAreTiled(PerHead):
    """flash-attention#578: cos and sin of the key heads are tiled, so query head 1 meets key head 0 as key head 1."""

    caught_by = "placement.grouped_and_cross_attention_agree_with_plain"

    def own(self, where: Tensor, x: Tensor) -> Tensor:
        every = where * (1 + torch.arange(4))[:, None, None]
        return every.repeat(1, x.shape[1] // 4, 1, 1)[0] if every.dim() == 3 else every
