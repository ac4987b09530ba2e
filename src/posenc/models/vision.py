"""Vision transformers in stages: ViT is one of a single stage, PVT one of four whose images grow smaller.

    tokens of the last stage -> LN -> the class token, or the mean of all -> logits

``posenc.models.vit`` and ``posenc.models.pvt`` say which sizes the published ones have.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec
from jaxtyping import Float
from torch import Tensor, nn

from posenc.models.sites import Site
from posenc.models.stage import SIGMA, Options, Stage, StageConfig
from posenc.scheme import Scheme


class VisionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that shapes a vision transformer but its scheme.

    image: height and width in pixels. read_out: the class token, which enters at the last stage and has no place, or
    the mean of all tokens. drop_path: of the last block, growing from 0 evenly.
    """

    image: tuple[int, int]
    classes: int
    stages: tuple[StageConfig, ...]
    channels: int = 3
    read_out: Literal["class", "mean"] = "class"
    drop_path: float = 0.0
    options: Options = Options()

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise ValueError(f"a classifier tells at least 2 classes apart; got classes={self.classes}.")
        if self.channels < 1 or min(self.image) < 1 or not self.stages:
            raise ValueError(
                "a vision transformer needs pictures of at least one channel and one pixel, and a stage; got "
                f"channels={self.channels}, image={self.image} and {len(self.stages)} stages."
            )
        if not (0 <= self.drop_path < 1 and 0 <= self.options.dropout < 1):
            raise ValueError("dropout and drop_path are parts of 1, at least 0 and below 1.")
        for number, stage in enumerate(self.stages):
            if min(stage.dim, stage.depth, stage.heads, stage.hidden, stage.patch, stage.reduction) < 1:
                raise ValueError(f"stage {number} needs sizes of at least 1 each; got {stage}.")
            if stage.dim % stage.heads:
                raise ValueError(
                    f"{stage.heads} heads do not divide a width of {stage.dim}; every head gets dim / heads channels. "
                    f"Use a number of heads that divides {stage.dim}."
                )
        if self.read_out == "class" and self.stages[-1].reduction > 1:
            raise ValueError("keys are reduced on a full grid: a class token needs a last stage of reduction=1.")
        self.shapes(self.image)

    def shapes(self, image: tuple[int, int]) -> list[tuple[int, int]]:
        """The grid of every stage for pictures of a size. Raises ValueError where patches or keys do not divide it."""
        shapes, shape = [], image
        for number, stage in enumerate(self.stages):
            if shape[0] % stage.patch or shape[1] % stage.patch or min(shape) < stage.patch:
                whole = self._whole(image)
                raise ValueError(
                    f"patches of {stage.patch} x {stage.patch} do not divide the {shape[0]} x {shape[1]} points that "
                    f"stage {number} reads of a picture of {image[0]} x {image[1]}. Resize or pad pictures to "
                    f"{whole[0]} x {whole[1]}."
                )
            shape = shape[0] // stage.patch, shape[1] // stage.patch
            if shape[0] % stage.reduction or shape[1] % stage.reduction:
                whole = self._whole(image)
                raise ValueError(
                    f"keys of {stage.reduction} x {stage.reduction} patches do not divide the {shape[0]} x {shape[1]} "
                    f"of stage {number} in a picture of {image[0]} x {image[1]}. Resize or pad pictures to "
                    f"{whole[0]} x {whole[1]}."
                )
            shapes.append(shape)
        return shapes

    def _whole(self, image: tuple[int, int]) -> tuple[int, int]:
        """The next size that every patch and every key divides."""
        unit, patch = 1, 1
        for stage in self.stages:
            patch *= stage.patch
            unit = math.lcm(unit, patch * stage.reduction)
        return -(-image[0] // unit) * unit, -(-image[1] // unit) * unit

    @property
    def sites(self) -> list[Site]:
        """What a scheme may know of every layer, in order: what ``posenc.models.sites.at_sites`` builds text for."""
        found: list[Site] = []
        counted = int(self.read_out == "class" and self.options.view in ("counted", "pixels"))
        for number, (stage, shape) in enumerate(zip(self.stages, self.shapes(self.image), strict=True)):
            before = counted if number + 1 == len(self.stages) else 0
            for layer in range(stage.depth):
                embeds = layer == 0 or self.options.placement != "input"
                found.append(
                    Site(layer=len(found), stage=number, first=layer == 0, embeds=embeds, dim=stage.dim,
                         heads=stage.heads, shape=shape, before=before)
                )  # fmt: skip
        return found


class VisionTransformer(nn.Module):
    """Pictures ``(B, channels, height, width)`` to logits ``(B, classes)``.

    schemes: a factory ``layer -> Scheme``, layers counted over all stages; returning the same scheme shares it. For one
    named in text: ``at_sites(parse(text), config.sites)``. Pictures of another size than ``config.image`` are placed
    by their own grid; tables must be resized to it first: ``model.resized((256, 256))``.
    """

    def __init__(self, config: VisionConfig, schemes: Callable[[int], Scheme]) -> None:
        super().__init__()
        self.config = config
        depth = sum(stage.depth for stage in config.stages)
        rates = [config.drop_path * layer / max(depth - 1, 1) for layer in range(depth)]
        widths = [config.channels, *(stage.dim for stage in config.stages)]
        stages, begin = [], 0
        for number, (stage, shape) in enumerate(zip(config.stages, config.shapes(config.image), strict=True)):
            last = number + 1 == len(config.stages)
            stages.append(
                Stage(stage, config.options, channels=widths[number], shape=shape,
                      class_token=last and config.read_out == "class",
                      drop_paths=rates[begin : begin + stage.depth])
            )  # fmt: skip
            begin += stage.depth
        self.stages = nn.ModuleList(stages)
        self.norm = nn.LayerNorm(widths[-1], eps=config.options.norm_eps)
        self.head = nn.Linear(widths[-1], config.classes)
        if config.options.init == "vision":
            self.apply(_initialise)
        self.place(schemes)

    def place(self, schemes: Callable[[int], Scheme]) -> None:
        """Gives every layer its scheme, in the place of what was there. Raises ValueError for one of another width."""
        sites = self.config.sites
        made = [schemes(site.layer) for site in sites]
        own = [[site for site in sites if site.stage == number] for number in range(len(self.stages))]
        for stage, of_stage in zip(self._stages, own, strict=True):
            stage.refuse([made[site.layer] for site in of_stage])  # all of them, before any stage is changed
        for stage, of_stage in zip(self._stages, own, strict=True):
            stage.place([made[site.layer] for site in of_stage], of_stage)

    def forward(self, x: Float[Tensor, "B channels height width"]) -> Float[Tensor, "B classes"]:
        self._refuse(x)
        z = self._stages[-1](_before_last(self._stages, x), x.shape[3])
        return self.head(self.norm(z[:, 0]) if self.config.read_out == "class" else self.norm(z).mean(1))

    def attention_maps(
        self, x: Float[Tensor, "B channels height width"], stage: int = -1
    ) -> Float[Tensor, "layers B H N K"]:
        """The attention weights of every block of a stage, in the model's present mode; without dropout on them."""
        self._refuse(x)
        stages = self._stages[: range(len(self.stages))[stage] + 1]
        return stages[-1].attention_maps(_before_last(stages, x), x.shape[3])

    def resized(self, image: tuple[int, int]) -> VisionTransformer:
        """Another model with the same weights for pictures of another size, its tables interpolated."""
        config = msgspec.structs.replace(self.config, image=tuple(image))
        other = copy.deepcopy(self)
        for stage, shape in zip(other._stages, config.shapes(config.image), strict=True):
            stage.resize(shape)
        other.config = config
        return other

    @property
    def _stages(self) -> list[Any]:
        return list(self.stages)

    def _refuse(self, x: Tensor) -> None:
        if x.dim() != 4 or x.shape[1] != self.config.channels:
            raise ValueError(
                f"this model reads pictures (B, {self.config.channels}, height, width); got {tuple(x.shape)}. Build it "
                "with channels= that of the pictures, or add the axis that they lack."
            )
        self.config.shapes((x.shape[2], x.shape[3]))


def _before_last(stages: Sequence[Any], picture: Tensor) -> Tensor:
    """The image that the last of the stages reads."""
    image = picture
    for stage in stages[:-1]:
        image = stage(image, picture.shape[3]).mT.unflatten(-1, stage.grid(image))
    return image


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=SIGMA, a=-2 * SIGMA, b=2 * SIGMA)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
