"""Faults of rows and biases. An exhibit differs from a healthy scheme, its base, in a few lines."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

from posenc.kernels.table_lookup import Rows, look_up
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme

ROWS = 24


class Table(Scheme):
    """A fixed table of normal numbers, ``e_p = R[p]``, times ``scale``."""

    examples = ({"scale": 1.0}, {"scale": 0.5})

    table: Tensor

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.register_buffer("table", torch.empty(ROWS, 4))
        self.reset_parameters()
        self.claims = Claims(
            translation="expected",
            isometric=False,
            learned=False,
            range=(0, ROWS - 1),
            axes=1,
            sites=frozenset({"embed"}),
            sharing="layer",
            cacheable=True,
        )

    def reset_parameters(self) -> None:
        self.table.normal_()

    @property
    def out_dim(self) -> int:
        return 4

    def prepare(self, pos: Positions) -> Rows:
        return Rows(self._rows(pos), pos.placed)

    def embed(self, where: Rows) -> Tensor:
        return self.scale * look_up(self.table, where)

    def define_embed(self, p: Tensor) -> Tensor:
        return self.scale * self.table[int(p[0])]


class NotSaved(Table):
    """github ljhearne/LSTNN_public, "random": the table is not saved, so a loaded model has other positions."""

    caught_by = "state.a_loaded_state_does_the_same"

    def __init__(self, scale: float) -> None:
        super().__init__(scale)
        self.register_buffer("table", self.table, persistent=False)


class UninitialisedAfterMeta(Table):
    """timm#2661, #2662: an index buffer is garbage after building on the meta device ("index 1841 out of bounds")."""

    caught_by = "state.the_meta_device_holds_a_scheme"

    def __init__(self, scale: float) -> None:
        super().__init__(scale)
        self.register_buffer("order", torch.arange(ROWS), persistent=False)

    def embed(self, where: Rows) -> Tensor:
        return super().embed(where._replace(index=self.order[where.index]))


class ResetLeavesRows(Table):
    """torchtune: buffers are made anew by hand after ``to_empty``; here a row is forgotten."""

    caught_by = "state.the_meta_device_holds_a_scheme"

    def reset_parameters(self) -> None:
        self.table[1:].normal_()


class ClippedToTheTable(Table):
    """vllm#56446: an index past the end of the cache; here clipped, so the last row answers for all beyond."""

    caught_by = "claims.range_is_as_claimed"

    def prepare(self, pos: Positions) -> Rows:
        return Rows(pos.coords[..., 0].long().clamp(0, ROWS - 1), pos.placed)


class ClassTokenHasARow(Table):
    """Made up after tables where padding and class token take row 0, which is the first pixel's."""

    caught_by = "placement.tokens_without_a_place_are_neutral"

    def prepare(self, pos: Positions) -> Rows:
        index = self._rows(pos)
        return Rows(index if pos.placed is None else index.where(pos.placed, 0), None)


class ClaimsToBeInvariant(Table):
    """gpytorch ``is_stationary``: a default nobody changed. A table is invariant in the mean over draws at most."""

    caught_by = "claims.translation_is_as_claimed"

    def __init__(self, scale: float) -> None:
        super().__init__(scale)
        self.claims = dataclasses.replace(self.claims, translation="exact")


class ClaimsToLearn(Table):
    """rope-vit#11, #25: what is learned? A table that is called learned and is a buffer."""

    caught_by = "claims.learning_is_as_claimed"

    def __init__(self, scale: float) -> None:
        super().__init__(scale)
        self.claims = dataclasses.replace(self.claims, learned=True)


class ScaleHasNoEffect(Table):
    """transformers#38224 (a YaRN factor), Liger (``position_ids``): an argument is taken and ignored."""

    caught_by = "options.every_example_differs_from_the_others"

    def embed(self, where: Rows) -> Tensor:
        return look_up(self.table, where)

    def define_embed(self, p: Tensor) -> Tensor:
        return self.table[int(p[0])]


class OptionOutsideTheExamples(Table):
    """x-transformers: 84 constructor arguments and no example of most; whether ``shift`` works nobody knows."""

    caught_by = "options.every_option_is_in_an_example"

    def __init__(self, scale: float, shift: int = 0) -> None:
        super().__init__(scale)
        self.shift = shift


class LearnedTable(Table):
    """The same table trained."""

    def __init__(self, scale: float) -> None:
        super().__init__(scale)
        self.claims = dataclasses.replace(self.claims, translation="none", learned=True)
        table = self.table
        del self.table
        self.table = nn.Parameter(table)

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.table.normal_()


class GradientCutInHalf(LearnedTable):
    """Megatron-LM#5412: the values are right and the gradient is silently another one."""

    caught_by = "definition.embedding_equals_its_definition"

    def embed(self, where: Rows) -> Tensor:
        return super().embed(where) / 2 + super().embed(where).detach() / 2


class ActsWhereItDoesNotSay(LearnedTable):
    """Made up for the check: rows are claimed, and values are doubled besides."""

    caught_by = "claims.sites_are_as_claimed"

    def transform(self, x: Tensor, where: Rows, site: str) -> Tensor:
        return 2 * x if site == "v" else x


class Wave(Scheme):
    """``[sin, cos](p_a omega)`` for two frequencies and any number of axes, concatenated."""

    examples = ({},)
    omega = (1.0, 0.1)

    def __init__(self) -> None:
        super().__init__()
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    @property
    def out_dim(self) -> int:
        return 4

    def prepare(self, pos: Positions) -> Tensor:
        angle = self._take(pos).precise()[..., :1] * torch.tensor(self.omega, dtype=torch.float64)
        rows = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2).to(pos.table_dtype)
        return rows if pos.placed is None else rows * pos.placed[..., None]

    def embed(self, where: Tensor) -> Tensor:
        return where

    def define_embed(self, p: Tensor) -> Tensor:
        return torch.stack([f(p[0] * omega) for omega in self.omega for f in (torch.sin, torch.cos)])


class IntegersGiveZeros(Wave):
    """positional-encodings#39: rows of the positions' dtype, so integer positions give zeros and ones."""

    caught_by = "placement.whole_and_real_positions_agree"

    def prepare(self, pos: Positions) -> Tensor:
        return super().prepare(pos).to(pos.coords.dtype).to(pos.table_dtype)


class CosineFirst(Wave):
    """positional-encodings#20, #21, #22: the order of sine and cosine changed, old checkpoints saw another encoding."""

    caught_by = "definition.embedding_equals_its_definition"

    def prepare(self, pos: Positions) -> Tensor:
        return super().prepare(pos)[..., [1, 0, 3, 2]]


class OtherAxesAreIgnored(Wave):
    """timm ``dim // 4`` bands: made for two axes, takes a third and never looks at it. Here: one, and takes any."""

    caught_by = "claims.axes_are_as_claimed"

    def __init__(self) -> None:
        super().__init__()
        self.claims = dataclasses.replace(self.claims, axes=None)


class DividedByTheLength(Wave):
    """Swin V2 log-CPB: coordinates are divided by (window - 1), which is 0 / 0 for a window of one."""

    caught_by = "placement.no_token_and_one_token_work"

    def prepare(self, pos: Positions) -> Tensor:
        coords = pos.coords.double()
        return super().prepare(dataclasses.replace(pos, coords=coords * (pos.count - 1) / (pos.count - 1 + 0 * coords)))


class Slopes(Scheme):
    """ALiBi on both sides: ``-m_h |p_j - p_i|`` on the logits, with a slope for each of four heads."""

    examples = ({},)

    def __init__(self) -> None:
        super().__init__()
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset({"bias"}),
            sharing="head",
            cacheable=True,
        )

    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)

    def relate(self, where_q: Positions, where_k: Positions) -> Tensor:
        far = (where_k.coords[..., None, :, 0] - where_q.coords[..., :, None, 0]).abs()
        for where, side in ((where_q, -1), (where_k, -2)):
            far = far if where.placed is None else far * where.placed.unsqueeze(side)
        return far.unsqueeze(-3)

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Tensor, attn_mask: Tensor | None) -> Tensor:
        return -(0.5 ** torch.arange(1, q.shape[1] + 1))[:, None, None] * pair

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Tensor):
        far = pair if pair.dim() == 4 else pair[None]
        return lambda score, b, h, i, j: score - 0.5 ** (h + 1) * far[b if len(far) > 1 else 0, 0, i, j]

    def define_bias(self, at) -> Tensor:
        return -(0.5 ** (at.head + 1)) * (at.k_pos[at.j, 0] - at.q_pos[at.i, 0]).abs()


class RewardsTheFuture(Slopes):
    """attention-gym ``alibi``: ``kv - q`` without an absolute value, only in the score_mod."""

    caught_by = "compiling.its_score_mod_agrees_with_eager"

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Tensor):
        return lambda score, b, h, i, j: score + 0.5 ** (h + 1) * (j - i)


class LostOnTheFastPath(Slopes):
    """x-transformers#298, #347: the fused path cannot take the bias; here it drops one without a word."""

    caught_by = "placement.backends_agree"

    def value_bias(self, weights: Tensor, pair: Tensor) -> Tensor:
        return (weights * pair).sum(-1, keepdim=True)
