"""LeNet, an image classifier, with a positional encoding of its pixels.

    f = pool(relu(conv_5(pool(relu(conv_5 x))))),   y = W_3 relu(W_2 relu(W_1 [f ; p] + b_1) + b_2) + b_3

Source: Cui 2024, "CNN with SC PE" (github Cui-Peng-624/SC-Position-Encoding), after LeCun et al. 1998: 6 and 16
channels, ReLU, max pooling over 2 x 2, fully connected layers of 120 and 84 units.

Placements of the encoding:

    "features"  concatenates the embedding rows p of all pixels to the features f. The rows are the same for every
                image, so W_1 p only adds a bias (see ``LeNet.folded``). Its control is "constant", a trained vector of
                the same width.
    "pixels"    multiplies every channel of the image by one value per pixel. Its control is "mask", one trained value
                per pixel.

Padding of the first convolution on 28 x 28 pixels: the author's model with an encoding has 2, the one without has 0.
"""

from __future__ import annotations

import copy
from typing import Literal

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posenc.models.sites import View, patch_positions
from posenc.scheme import Scheme

KERNEL, CHANNELS, HIDDEN = 5, (6, 16), (120, 84)
Placement = Literal["none", "features", "constant", "pixels", "mask"]


class LeNetConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a LeNet, without its scheme.

    Attributes:
        image: height and width in pixels.
        channels: number of channels of an image.
        classes: number of output classes.
        padding: padding of the first convolution, in pixels.
        placement: where an encoding or its control enters.
        width: width of the trained vector of placement "constant"; 0 for the others.
        std: standard deviation of that vector's initial values. A mask starts at 1.
        view: position that a pixel gets.
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
                f"nothing is left of an image of {self.image[0]} x {self.image[1]} after two convolutions of {KERNEL} "
                "and two halvings. Use images of at least 16 x 16, or padding=2 and 12 x 12."
            )
        if (self.placement == "constant") != (self.width > 0):
            raise ValueError(
                "width is that of the trained vector of placement='constant', at least 1 there and 0 elsewhere; got "
                f"placement={self.placement!r}, width={self.width}."
            )

    @property
    def grid(self) -> tuple[int, int]:
        """Height and width of the last feature map."""
        height, width = (((side + 2 * self.padding - KERNEL + 1) // 2 - KERNEL + 1) // 2 for side in self.image)
        return height, width

    @property
    def features(self) -> int:
        """Number of features after the convolutions: 256 for 28 x 28, 400 for 32 x 32 or with padding 2."""
        return CHANNELS[1] * self.grid[0] * self.grid[1]


class LeNet(nn.Module):
    """LeNet from images ``(B, channels, height, width)`` to logits ``(B, classes)``.

    Args:
        config: sizes and placement.
        scheme: a scheme whose only site is "embed", for the placements "features" and "pixels"; None for the others.

    Raises:
        ValueError: a scheme with other sites, or one that does not fit the placement.
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
            self.rows()  # raises now if the scheme cannot read these positions

    def rows(self) -> Float[Tensor, "pixels out"]:
        """Return the scheme's embedding row of every pixel, ``(pixels, out_dim)``, row-major."""
        assert self.scheme is not None
        pos = patch_positions(
            self.config.image, self.scheme.claims.axes, self.config.view, device=self.fc1.weight.device
        )
        return self.scheme.embed(self.scheme.prepare(pos))

    def forward(self, x: Float[Tensor, "B channels height width"]) -> Float[Tensor, "B classes"]:
        """Compute the logits ``(B, classes)`` of images ``(B, channels, height, width)``."""
        self._refuse(x)
        over = self.over()
        x = x if over is None else x * over
        # pooling before relu gives the same values and gradients, and relu then has a quarter of the work
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2)).flatten(1)
        beside = self._beside()
        x = x if beside is None else torch.cat([x, beside.to(x.dtype).expand(len(x), -1)], 1)
        return self.fc3(functional.relu(self.fc2(functional.relu(self.fc1(x)))))

    def folded(self) -> LeNet:
        """Return a plain LeNet with the same outputs: the concatenated rows or vector become part of the bias b_1.

        Raises:
            ValueError: a placement that concatenates nothing to the features.
        """
        beside = self._beside()
        if beside is None:
            raise ValueError(
                f"placement={self.config.placement!r} concatenates nothing to the features; there is nothing to fold."
            )
        plain = LeNet(msgspec.structs.replace(self.config, placement="none", width=0)).to(self.fc1.weight)
        for name in ("conv1", "conv2", "fc2", "fc3"):
            setattr(plain, name, copy.deepcopy(getattr(self, name)))
        with torch.no_grad():
            of_features, of_beside = self.fc1.weight.split([self.config.features, len(beside)], 1)
            plain.fc1.weight.copy_(of_features)
            plain.fc1.bias.copy_(self.fc1.bias + of_beside @ beside.to(of_beside.dtype))
        return plain.train(self.training)

    def over(self) -> Float[Tensor, "height width"] | None:
        """Return the factor ``(height, width)`` that multiplies the image, or None without one."""
        if self.config.placement == "pixels":
            return self.rows().reshape(self.config.image).to(self.fc1.weight.dtype)
        return self.mask

    def _beside(self) -> Tensor | None:
        """Return the vector that is concatenated to the features, or None without one."""
        return self.rows().flatten() if self.config.placement == "features" else self.constant

    def _refuse(self, x: Tensor) -> None:
        config = self.config
        if x.dim() != 4 or tuple(x.shape[1:]) != (config.channels, *config.image):
            raise ValueError(
                f"this LeNet reads images (B, {config.channels}, {config.image[0]}, {config.image[1]}); got "
                f"{tuple(x.shape)}. Build it with the channels= and image= of the images."
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
