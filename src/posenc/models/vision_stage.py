"""One stage of a vision transformer: patch embedding, positional encoding and blocks.

    z = [class token ; LN(conv_p image)] + learned table + embedding rows of the scheme

The class token, the layer norm, the table and the rows are optional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posenc.models.embedding_scale import embedding_scale, initial_rows
from posenc.models.sites import Keys, PreparedScheme, Site, View, patch_positions, refuse_width, without_repetition
from posenc.models.vision_block import Block, BlockConfig
from posenc.positions import Positions
from posenc.scheme import Scheme
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE

SIGMA = 0.02
"""Standard deviation of initial weights, class tokens and tables, as is usual in vision transformers."""


class StageConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes of a stage.

    Attributes:
        dim: model width.
        depth: number of blocks.
        heads: number of attention heads.
        hidden: width of the feed-forward's hidden layer.
        patch: side of a patch, in points of the stage's input image.
        reduction: side of the cell of patches that one key stands for; 1 for a key per patch.
    """

    dim: int
    depth: int
    heads: int
    hidden: int
    patch: int
    reduction: int = 1


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options that all stages of a model share.

    Attributes:
        patches: patch embedding: "plain" is a convolution, "normed" a convolution with a layer norm after it, "around"
            a linear layer with a layer norm before and after it.
        tables: whether each stage has a learned position table besides the scheme.
        placement: where the scheme's embedding rows are added: "input" at the input of a stage, "every_block" in every
            block, "attention" in every block to the input of its attention only.
        project: hidden widths of a network that maps rows to the model width; () for one linear layer; None to refuse
            rows of another width.
        view: position of a patch.
        keys: position of a reduced key.
        attention_norm: False for blocks without a layer norm before attention.
        qkv_bias: whether the projections of queries, keys and values have biases.
        norm_eps: epsilon of the layer norms.
        dropout: dropout probability.
        init: "vision" for N(0, 0.02^2) truncated at 2 standard deviations and zero biases; "torch" for torch's
            defaults, with class tokens and tables from N(0, 1).
    """

    patches: Literal["plain", "normed", "around"] = "plain"
    tables: bool = False
    placement: Literal["input", "every_block", "attention"] = "input"
    project: tuple[int, ...] | None = None
    view: View = "grid"
    keys: Keys = "centre"
    attention_norm: bool = True
    qkv_bias: bool = True
    norm_eps: float = 1e-6
    dropout: float = 0.0
    init: Literal["vision", "torch"] = "vision"


@runtime_checkable
class Resizable(Protocol):
    """Protocol of a scheme with a table for a grid that can be resized, as ``Learned``."""

    def resized(self, shape: Sequence[int], to: Sequence[int], *, before: int = 0) -> Any:
        """Return the scheme for a grid of shape ``to`` instead of ``shape``, with ``before`` rows unchanged."""
        ...


@runtime_checkable
class Movable(Protocol):
    """Protocol of a scheme for one window size that can be changed to another, as ``LogCPB``."""

    def moved(self, window: Sequence[int]) -> Any:
        """Return the scheme for another window size."""
        ...


class Stage(nn.Module):
    """Stage of a vision transformer, from an image ``(B, channels, h, w)`` to tokens ``(B, N, dim)``.

    Args:
        config: sizes of the stage.
        options: options that all stages share.
        channels: number of channels of the image.
        shape: height and width of the grid of patches.
        class_token: whether a class token is put before the patches.
        drop_paths: stochastic depth rate of each block.
    """

    def __init__(
        self,
        config: StageConfig,
        options: Options,
        *,
        channels: int,
        shape: tuple[int, int],
        class_token: bool,
        drop_paths: Sequence[float],
    ) -> None:
        super().__init__()
        self.config, self.options, self.shape, self.before = config, options, shape, int(class_token)
        dim, eps, patch = config.dim, options.norm_eps, config.patch
        around = options.patches == "around"
        self.before_patches = nn.LayerNorm(channels * patch**2, eps=eps) if around else nn.Identity()
        self.patches = nn.Linear(channels * patch**2, dim) if around else nn.Conv2d(channels, dim, patch, patch)
        self.after_patches = nn.Identity() if options.patches == "plain" else nn.LayerNorm(dim, eps=eps)
        sigma = SIGMA if options.init == "vision" else 1.0
        self.class_token = nn.Parameter(sigma * torch.randn(dim)) if class_token else None
        counted = self.before if options.view in ("counted", "pixels") else 0
        rows = shape[0] * shape[1] + counted
        self.table = Learned(dim, rows, sigma=sigma) if options.tables else None
        if self.table is not None:  # The model builds it; its call is shown like those of schemes built from text.
            self.table.built_as = f"Learned(dim={dim}, max_len={rows}, sigma={sigma})"
        self.blocks = nn.ModuleList(Block(_block(config, options, rate)) for rate in drop_paths)

    def refuse(self, made: Sequence[Scheme]) -> None:
        """Raise ValueError if a scheme has another width than the stage."""
        projects, dim = self.options.project is not None, self.config.dim
        for scheme in made:
            refuse_width(scheme, dim=dim, head_dim=dim // self.config.heads, model="model", projects=projects)

    def place(self, made: Sequence[Scheme], sites: Sequence[Site]) -> None:
        """Set the scheme of each block.

        A projection from rows to tokens keeps its weights if the rows have the same width as before.

        Args:
            made: the scheme of each block.
            sites: the site of each block.

        Raises:
            ValueError: a scheme of another width. The stage is then unchanged.
        """
        self.refuse(made)
        # a scheme whose rows are added nowhere is left out, so that its parameters do not count
        idle = [not site.embeds and scheme.claims.sites == {"embed"} for scheme, site in zip(made, sites, strict=True)]
        nothing = NoPE()
        unique, self.scheme_of = without_repetition(
            [nothing if no else scheme for scheme, no in zip(made, idle, strict=True)]
        )
        self.schemes = nn.ModuleList(unique).train(self.training)
        self.embeds = [site.embeds for site in sites]
        hidden, like = self.options.project, next(self.patches.parameters())
        before: dict[str, Any] = dict(getattr(self, "projections", {}))
        self.projections = nn.ModuleDict()
        for i, scheme in enumerate(unique):
            if hidden is None or "embed" not in scheme.claims.sites:
                continue
            projection = before.get(str(i))
            if projection is None or projection[0].in_features != scheme.out_dim:
                projection = _network((scheme.out_dim, *hidden, self.config.dim)).to(like)
            self.projections[str(i)] = projection

    def forward(self, image: Float[Tensor, "B channels h w"], pixels: int) -> Float[Tensor, "B N dim"]:
        """Compute the tokens of the stage.

        Args:
            image: the stage's input, ``(B, channels, h, w)``.
            pixels: width of the model's input image in pixels.

        Returns:
            Tokens ``(B, N, dim)``, the class token first if there is one.
        """
        return self._through(image, pixels, lambda block, *given: None)

    def attention_maps(self, image: Tensor, pixels: int) -> Float[Tensor, "layers B H N K"]:
        """Return the attention weights of every block, ``(layers, B, H, N, K)``."""
        maps: list[Tensor] = []
        self._through(image, pixels, lambda block, *given: maps.append(block.weights(*given)))
        return torch.stack(maps)

    @torch.no_grad()
    def embedding_scale(self, image: Float[Tensor, "B C h w"], pixels: int) -> float | None:
        """Measure the size of the table and of the scheme's rows beside that of the patches to which they are added.

        Args:
            image: the stage's input ``(B, channels, h, w)``.
            pixels: width of the model's image in pixels.

        Returns:
            Root mean square of the rows over that of the tokens; None if no rows are added.
        """
        shape, z = self.grid(image), self._tokens(image)
        parts: list[Tensor] = []
        if self.table is not None:
            table = initial_rows(self.table, self.positions(self.table, shape, pixels, z.device))
            parts += [] if table is None else [table]
        scheme, key = self._schemes[self.scheme_of[0]], str(self.scheme_of[0])
        rows = initial_rows(scheme, self.positions(scheme, shape, pixels, z.device))
        if rows is not None:
            parts.append(self.projections[key](rows.to(z.dtype)) if key in self.projections else rows)
        if not parts:
            return None
        return embedding_scale(reduce(torch.add, parts)[..., self.before :, :], z[:, self.before :])

    def grid(self, image: Tensor) -> tuple[int, int]:
        """Return the number of patches of an image along its height and its width."""
        return image.shape[2] // self.config.patch, image.shape[3] // self.config.patch

    def positions(self, scheme: Scheme, shape: tuple[int, int], pixels: int, device: torch.device) -> Positions:
        """Return the positions of the stage's tokens for a scheme."""
        return patch_positions(
            shape, scheme.claims.axes, self.options.view, before=self.before, pixels=pixels, device=device
        )

    def _through(self, image: Tensor, pixels: int, visit: Callable[..., None]) -> Tensor:
        shape, options = self.grid(image), self.options
        z = self._tokens(image)
        if self.table is not None:
            z = z + self.table.embed(self.table.prepare(self.positions(self.table, shape, pixels, z.device)))
        at = [self._placed(scheme, shape, pixels, z.device) for scheme in self._schemes]
        embedded = [self._rows(number, one, z.dtype) for number, one in enumerate(at)]
        for layer, block in enumerate(self.blocks):
            which = self.scheme_of[layer]
            rows = embedded[which] if self.embeds[layer] else None
            if rows is not None and options.placement != "attention":
                z, rows = z + rows, None
            if layer == 0 and options.dropout:
                z = functional.dropout(z, options.dropout, self.training)
            visit(block, z, at[which], shape, rows)
            z = block(z, at[which], shape, rows)
        return z

    def _tokens(self, image: Tensor) -> Tensor:
        if isinstance(self.patches, nn.Linear):
            p = self.config.patch
            cut = image.unflatten(3, (-1, p)).unflatten(2, (-1, p))  # (B, c, h, p, w, p)
            z = self.patches(self.before_patches(cut.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)))
        else:
            z = self.patches(image).flatten(2).mT
        z = self.after_patches(z)
        return z if self.class_token is None else torch.cat([self.class_token.expand(len(z), 1, -1), z], 1)

    def _placed(self, scheme: Scheme, shape: tuple[int, int], pixels: int, device: torch.device) -> PreparedScheme:
        keys, cells = None, self.config.reduction
        if cells > 1:
            keys = patch_positions(
                shape, scheme.claims.axes, self.options.view, cells=cells, keys=self.options.keys, device=device
            )
        return PreparedScheme.at(scheme, self.positions(scheme, shape, pixels, device), keys)

    def _rows(self, number: int, at: PreparedScheme, dtype: torch.dtype) -> Tensor | None:
        if "embed" not in at.scheme.claims.sites:
            return None
        rows = at.scheme.embed(at.queries).to(dtype)
        if str(number) not in self.projections:
            return rows
        rows = self.projections[str(number)](rows)
        return rows if at.placed is None else rows * at.placed[..., None]  # no bias for tokens without a position

    @property
    def _schemes(self) -> list[Any]:
        return list(self.schemes)

    def resize(self, shape: tuple[int, int]) -> None:
        """Resize the tables of the stage and of its schemes to another grid. Schemes without tables stay unchanged."""
        before = self.before if self.options.view in ("counted", "pixels") else 0
        if self.table is not None:
            self.table = _for_grid(self.table, self.shape, shape, before)
        self.schemes = nn.ModuleList(_for_grid(scheme, self.shape, shape, before) for scheme in self._schemes)
        self.shape = shape


def _for_grid(scheme: Any, shape: tuple[int, int], to: tuple[int, int], before: int) -> Any:
    """Return a scheme for another grid. The first ``before`` rows of a table belong to other tokens and stay."""
    if isinstance(scheme, Resizable):
        return scheme.resized(shape, to, before=before) if before else scheme.resized(shape, to)
    if isinstance(scheme, Movable):
        return scheme.moved(to)
    tables = [type(part).__name__ for part in scheme.modules() if isinstance(part, Resizable | Movable)]
    if tables:
        name = type(scheme).__name__
        raise ValueError(
            f"this {name} holds a {tables[0]} for a grid of {shape[0]} x {shape[1]}, and only a scheme that is not "
            f"inside another is resized. Give the model a {name} of parts that are resized by hand: "
            "swap(model, lambda layer: ..)."
        )
    return scheme


def _block(config: StageConfig, options: Options, rate: float) -> BlockConfig:
    return BlockConfig(
        dim=config.dim,
        heads=config.heads,
        hidden=config.hidden,
        reduction=config.reduction,
        qkv_bias=options.qkv_bias,
        attention_norm=options.attention_norm,
        norm_eps=options.norm_eps,
        dropout=options.dropout,
        drop_path=rate,
    )


def _network(widths: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
