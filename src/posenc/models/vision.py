"""Vision transformers in stages: ViT has one stage, PVT has four stages with ever smaller grids.

    tokens of the last stage -> LN -> the class token, or the mean of all tokens -> logits

``posenc.models.vit`` and ``posenc.models.pvt`` define the published sizes.
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
from posenc.models.vision_stage import SIGMA, Options, Stage, StageConfig
from posenc.scheme import Scheme


class VisionConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a vision transformer, without its scheme.

    Attributes:
        image: height and width in pixels.
        classes: number of output classes.
        stages: sizes of the stages.
        channels: number of channels of an image.
        read_out: "class" for a class token, which enters at the last stage and has no position; "mean" for the mean of
            all tokens.
        drop_path: stochastic depth rate of the last block; the rate grows linearly from 0 at the first block.
        options: options that all stages share.
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
            raise ValueError(f"a classifier has at least 2 classes; got classes={self.classes}.")
        if self.channels < 1 or min(self.image) < 1 or not self.stages:
            raise ValueError(
                "a vision transformer needs images of at least one channel and one pixel, and a stage; got "
                f"channels={self.channels}, image={self.image} and {len(self.stages)} stages."
            )
        if not (0 <= self.drop_path < 1 and 0 <= self.options.dropout < 1):
            raise ValueError("dropout and drop_path are probabilities, at least 0 and below 1.")
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
        """Return the grid of every stage for images of a size.

        Args:
            image: height and width in pixels.

        Returns:
            Height and width of each stage's grid of patches.

        Raises:
            ValueError: patches or reduced keys do not divide the image.
        """
        shapes, shape = [], image
        for number, stage in enumerate(self.stages):
            if shape[0] % stage.patch or shape[1] % stage.patch or min(shape) < stage.patch:
                whole = self._whole(image)
                raise ValueError(
                    f"patches of {stage.patch} x {stage.patch} do not divide the {shape[0]} x {shape[1]} points that "
                    f"stage {number} reads of an image of {image[0]} x {image[1]}. Resize or pad images to "
                    f"{whole[0]} x {whole[1]}."
                )
            shape = shape[0] // stage.patch, shape[1] // stage.patch
            if shape[0] % stage.reduction or shape[1] % stage.reduction:
                whole = self._whole(image)
                raise ValueError(
                    f"keys of {stage.reduction} x {stage.reduction} patches do not divide the {shape[0]} x {shape[1]} "
                    f"of stage {number} in an image of {image[0]} x {image[1]}. Resize or pad images to "
                    f"{whole[0]} x {whole[1]}."
                )
            shapes.append(shape)
        return shapes

    def _whole(self, image: tuple[int, int]) -> tuple[int, int]:
        """Return the next larger image size that every patch and every reduced key divides."""
        unit, patch = 1, 1
        for stage in self.stages:
            patch *= stage.patch
            unit = math.lcm(unit, patch * stage.reduction)
        return -(-image[0] // unit) * unit, -(-image[1] // unit) * unit

    @property
    def sites(self) -> list[Site]:
        """Sites of all layers in order, for ``posenc.models.sites.at_sites``."""
        sites: list[Site] = []
        counted = int(self.read_out == "class" and self.options.view in ("counted", "pixels"))
        for number, (stage, shape) in enumerate(zip(self.stages, self.shapes(self.image), strict=True)):
            before = counted if number + 1 == len(self.stages) else 0
            for layer in range(stage.depth):
                embeds = layer == 0 or self.options.placement != "input"
                sites.append(
                    Site(layer=len(sites), stage=number, first=layer == 0, embeds=embeds, dim=stage.dim,
                         heads=stage.heads, shape=shape, before=before)
                )  # fmt: skip
        return sites


class VisionTransformer(nn.Module):
    """Vision transformer from images ``(B, channels, height, width)`` to logits ``(B, classes)``.

    Images of another size than ``config.image`` get positions of their own grid. A scheme with a table must be resized
    first: ``model.resized((256, 256))``.

    Args:
        config: sizes and options.
        schemes: a factory ``layer -> Scheme``, with layers counted over all stages; returning the same scheme shares
            it. For a scheme as text: ``at_sites(parse(text), config.sites)``.

    Raises:
        ValueError: a scheme of another width.
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
            self.apply(_initialize)
        self.place(schemes)

    def place(self, schemes: Callable[[int], Scheme]) -> None:
        """Set the scheme of every layer.

        Args:
            schemes: a factory ``layer -> Scheme``, with layers counted over all stages.

        Raises:
            ValueError: a scheme of another width. The model is then unchanged.
        """
        sites = self.config.sites
        made = [schemes(site.layer) for site in sites]
        own = [[site for site in sites if site.stage == number] for number in range(len(self.stages))]
        for stage, of_stage in zip(self._stages, own, strict=True):
            stage.refuse([made[site.layer] for site in of_stage])  # checks all stages before any is changed
        for stage, of_stage in zip(self._stages, own, strict=True):
            stage.place([made[site.layer] for site in of_stage], of_stage)

    def forward(self, x: Float[Tensor, "B channels height width"]) -> Float[Tensor, "B classes"]:
        """Compute the logits ``(B, classes)`` of images ``(B, channels, height, width)``."""
        self._refuse(x)
        z = self._stages[-1](_before_last(self._stages, x), x.shape[3])
        return self.head(self.norm(z[:, 0]) if self.config.read_out == "class" else self.norm(z).mean(1))

    def attention_maps(
        self, x: Float[Tensor, "B channels height width"], stage: int = -1
    ) -> Float[Tensor, "layers B H N K"]:
        """Compute the attention maps of a stage, in the model's present mode, without dropout on the weights.

        Args:
            x: images ``(B, channels, height, width)``.
            stage: number of the stage; by default the last.

        Returns:
            Attention weights ``(layers, B, H, N, K)``.
        """
        self._refuse(x)
        stages = self._stages[: range(len(self.stages))[stage] + 1]
        return stages[-1].attention_maps(_before_last(stages, x), x.shape[3])

    def embedding_scale(self, x: Float[Tensor, "B channels height width"]) -> float | None:
        """Measure the size of the embedding rows beside that of the patches, in the first stage.

        Args:
            x: images ``(B, channels, height, width)``.

        Returns:
            Root mean square of the rows over that of the tokens; None if no rows are added.
        """
        self._refuse(x)
        return self._stages[0].embedding_scale(x, x.shape[3])

    def resized(self, image: tuple[int, int]) -> VisionTransformer:
        """Copy the model for images of another size, with its position tables interpolated.

        Args:
            image: height and width in pixels.

        Returns:
            A new model with the same weights.
        """
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
                f"this model reads images (B, {self.config.channels}, height, width); got {tuple(x.shape)}. Build it "
                "with the channels= of the images, or add the axis that they lack."
            )
        self.config.shapes((x.shape[2], x.shape[3]))


def _before_last(stages: Sequence[Any], x: Tensor) -> Tensor:
    """Return the input image of the last stage."""
    image = x
    for stage in stages[:-1]:
        image = stage(image, x.shape[3]).mT.unflatten(-1, stage.grid(image))
    return image


def _initialize(module: nn.Module) -> None:
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=SIGMA, a=-2 * SIGMA, b=2 * SIGMA)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
