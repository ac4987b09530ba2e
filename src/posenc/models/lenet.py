"""LeNet, and the ways in which an encoding of the pixels enters it.

    f = pool(relu(conv_5(pool(relu(conv_5 x))))),   y = W_3 relu(W_2 relu(W_1 [f ; p] + b_1) + b_2) + b_3

Source: Cui 2024, "CNN with SC PE" (github Cui-Peng-624/SC-Position-Encoding), after LeCun et al. 1998: 6 and 16
channels, ReLU and the largest of 2 x 2, layers of 120 and 84.

Placements: "features" puts the rows p of all pixels beside the features f. They are the same for every picture, so
W_1 p is a bias and nothing else (``folded``): its control is "constant", a trained vector of that width. "pixels"
multiplies every channel of the picture by the one number that a scheme gives a pixel; its control is "mask", one
trained number a pixel. padding: the author's model with rows has 2 in its first layer on 28 x 28 pixels, and the one
without has 0.
"""

from __future__ import annotations

import copy
from typing import Literal

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posenc.models.sites import View, places
from posenc.scheme import Scheme

KERNEL, CHANNELS, HIDDEN = 5, (6, 16), (120, 84)
Placement = Literal["none", "features", "constant", "pixels", "mask"]


class LeNetConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What shapes a LeNet but its scheme.

    image: height and width in pixels. padding: of the first convolution. placement: where an encoding or its control
    enters. width: of the trained vector, of placement "constant". std: the standard deviation of its first numbers; a
    mask starts at 1. view: what a pixel's position is.
    """

    image: tuple[int, int] = (28, 28)
    channels: int = 1
    classes: int = 10
    padding: int = 0
    placement: Placement = "none"
    width: int = 0
    std: float = 0.1
    view: View = "grid"

    def __post_init__(self) -> None:
        if self.classes < 2 or self.channels < 1 or self.padding < 0 or self.std < 0:
            raise ValueError(
                "LeNet needs at least 2 classes and 1 channel, and padding and std of at least 0; got "
                f"classes={self.classes}, channels={self.channels}, padding={self.padding}, std={self.std:g}."
            )
        if min(self.grid) < 1:
            raise ValueError(
                f"nothing is left of a picture of {self.image[0]} x {self.image[1]} after two convolutions of {KERNEL} "
                "and two halvings. Use pictures of at least 16 x 16, or padding=2 and 12 x 12."
            )
        if (self.placement == "constant") != (self.width > 0):
            raise ValueError(
                "width is that of the trained vector of placement='constant', at least 1 there and 0 elsewhere; got "
                f"placement={self.placement!r}, width={self.width}."
            )

    @property
    def grid(self) -> tuple[int, int]:
        """The points that both convolutions leave."""
        height, width = (((side + 2 * self.padding - KERNEL + 1) // 2 - KERNEL + 1) // 2 for side in self.image)
        return height, width

    @property
    def features(self) -> int:
        """Numbers that the convolutions give: 256 for 28 x 28, 400 for 32 x 32 or with padding 2."""
        return CHANNELS[1] * self.grid[0] * self.grid[1]


class LeNet(nn.Module):
    """Pictures ``(B, channels, height, width)`` to logits ``(B, classes)``.

    scheme: one that embeds, for the placements "features" and "pixels"; None for the others. Raises ValueError for a
    scheme that acts elsewhere, or does not fit its placement.
    """

    def __init__(self, config: LeNetConfig, scheme: Scheme | None = None) -> None:
        super().__init__()
        self.config = config
        _refuse_unfit(config, scheme)
        self.conv1 = nn.Conv2d(config.channels, CHANNELS[0], KERNEL, padding=config.padding)
        self.conv2 = nn.Conv2d(*CHANNELS, KERNEL)
        beside = config.width
        if scheme is not None and config.placement == "features":
            beside = config.image[0] * config.image[1] * scheme.out_dim
        self.fc1 = nn.Linear(config.features + beside, HIDDEN[0])
        self.fc2 = nn.Linear(*HIDDEN)
        self.fc3 = nn.Linear(HIDDEN[1], config.classes)
        self.constant = nn.Parameter(config.std * torch.randn(config.width)) if config.width else None
        self.mask = nn.Parameter(torch.ones(config.image)) if config.placement == "mask" else None
        self.scheme = scheme
        if scheme is not None:
            self.rows()  # what is wrong with the positions is said now

    def rows(self) -> Float[Tensor, "pixels out"]:
        """The scheme's row of every pixel, row-major."""
        assert self.scheme is not None
        pos = places(self.config.image, self.scheme.claims.axes, self.config.view, device=self.fc1.weight.device)
        return self.scheme.embed(self.scheme.prepare(pos))

    def forward(self, x: Float[Tensor, "B channels height width"]) -> Float[Tensor, "B classes"]:
        self._refuse(x)
        over = self.over()
        x = x if over is None else x * over
        # the larger of two, then relu: the same numbers and gradients as the other way round, from a quarter of them
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2)).flatten(1)
        beside = self._beside()
        x = x if beside is None else torch.cat([x, beside.to(x.dtype).expand(len(x), -1)], 1)
        return self.fc3(functional.relu(self.fc2(functional.relu(self.fc1(x)))))

    def folded(self) -> LeNet:
        """The plain LeNet with the same outputs: what stands beside the features is moved into the bias of ``W_1``.

        Raises ValueError where nothing stands there.
        """
        beside = self._beside()
        if beside is None:
            raise ValueError(f"placement={self.config.placement!r} puts nothing beside the features; there is no fold.")
        plain = LeNet(msgspec.structs.replace(self.config, placement="none", width=0)).to(self.fc1.weight)
        for name in ("conv1", "conv2", "fc2", "fc3"):
            setattr(plain, name, copy.deepcopy(getattr(self, name)))
        with torch.no_grad():
            of_features, of_beside = self.fc1.weight.split([self.config.features, len(beside)], 1)
            plain.fc1.weight.copy_(of_features)
            plain.fc1.bias.copy_(self.fc1.bias + of_beside @ beside.to(of_beside.dtype))
        return plain.train(self.training)

    def over(self) -> Float[Tensor, "height width"] | None:
        """What multiplies the picture; None where nothing does."""
        if self.config.placement == "pixels":
            return self.rows().reshape(self.config.image).to(self.fc1.weight.dtype)
        return self.mask

    def _beside(self) -> Tensor | None:
        """What stands beside the features of every picture."""
        return self.rows().flatten() if self.config.placement == "features" else self.constant

    def _refuse(self, x: Tensor) -> None:
        config = self.config
        if x.dim() != 4 or tuple(x.shape[1:]) != (config.channels, *config.image):
            raise ValueError(
                f"this LeNet reads pictures (B, {config.channels}, {config.image[0]}, {config.image[1]}); got "
                f"{tuple(x.shape)}. Build it with the channels= and image= of the pictures."
            )


def _refuse_unfit(config: LeNetConfig, scheme: Scheme | None) -> None:
    takes = config.placement in ("features", "pixels")
    if takes and scheme is None:
        raise ValueError(
            f"placement={config.placement!r} takes a scheme that embeds pixels, as SCPE(28, hidden=(128,))."
        )
    if scheme is None:
        return
    name = type(scheme).__name__
    if not takes:
        raise ValueError(
            f"placement={config.placement!r} takes no scheme; got {name}. Use placement='features' or 'pixels'."
        )
    if scheme.claims.sites != {"embed"}:
        raise ValueError(
            f"a LeNet has pixels and features and no attention, and {name} acts at "
            f"{', '.join(sorted(scheme.claims.sites)) or 'no site'}. Take one that embeds and no more."
        )
    if config.placement == "pixels" and scheme.out_dim != 1:
        raise ValueError(
            f"a pixel is multiplied by one number, and {name} gives {scheme.out_dim}. Use one with a readout, as "
            "hidden=(128,), or placement='features'."
        )
