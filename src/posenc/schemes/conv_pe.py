"""ConvPE: convolutional positional embedding of wav2vec 2.0; a grouped convolution of the tokens is added to them.

    x_n -> x_n + gelu(b + sum over u = 0 .. k - 1 of W_u x_{n + u - floor(k / 2)}),     W_u = g_u V_u / |V_u|

W_u maps the channels of each group to themselves, ``|V_u|`` is its Frobenius norm over all groups (weight normalization
over the kernel). A frame infers its place from its neighbors and from the zeros beyond the ends.

Source: Baevski et al. 2020, arXiv 2006.11477, section 2; transformers' ``Wav2Vec2PositionalConvEmbedding``.

Conventions, as in that code:
- k = 128 frames and 16 groups. With an even k, a token sees one more frame before it than after it.
- V starts from N(0, 4 / (k dim)), b from 0, g_u as ``|V_u|``.
- A model calls it once before its first block, then a layer norm of its own. It is not causal.
- Coordinates are not read: positions must form a full row, as ``sequence(n)``. Tokens without a position are neither
  changed nor read; all samples of a batch have as many frames.
- ``load_wav2vec2`` copies the weights of a model of transformers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from posenc.kernels.shape_checks import require_width
from posenc.kernels.token_grid import TokenGrid, map_grid, token_grid
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme
from posenc.whole_numbers import are_whole


class ConvPE(Scheme):
    """Convolutional positional embedding: a grouped convolution with GELU and residual, on a row of tokens.

        x_n -> x_n + gelu(b + sum_u W_u x_{n + u - floor(k / 2)})

    Args:
        dim: Channels of a token.
        kernel: Width k of the convolution in tokens. Default: 128.
        groups: Number of groups of channels; it divides ``dim``. Default: 16.
        generator: Random generator of the initial weights. Default: torch's global generator.

    Raises:
        ValueError: If a size is not a whole number of at least 1, or ``groups`` does not divide ``dim``.

    Example:
        >>> import torch
        >>> from posenc import ConvPE, sequence
        >>> scheme = ConvPE(32, kernel=8, groups=4)
        >>> scheme.mix(torch.randn(1, 20, 32), scheme.prepare(sequence(20))).shape
        torch.Size([1, 20, 32])

    References:
        Baevski, Zhou, Mohamed and Auli 2020, "wav2vec 2.0: A Framework for Self-Supervised Learning of Speech
        Representations", arXiv 2006.11477, section 2.
    """

    cite = """@inproceedings{baevski2020wav2vec,
  title={wav2vec 2.0: A Framework for Self-Supervised Learning of Speech Representations},
  author={Baevski, Alexei and Zhou, Henry and Mohamed, Abdelrahman and Auli, Michael},
  booktitle={NeurIPS}, year={2020}, note={arXiv:2006.11477}}"""
    examples = ({"dim": 12, "kernel": 4, "groups": 3}, {"dim": 12, "kernel": 3, "groups": 1})

    direction: nn.Parameter
    gain: nn.Parameter
    shift: nn.Parameter

    def __init__(
        self, dim: int, kernel: int = 128, groups: int = 16, *, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if not are_whole(dim, kernel, groups) or dim % groups:
            raise ValueError(
                "ConvPE needs dim, kernel and groups that are whole numbers of at least 1, and groups that divide dim; "
                f"got dim={dim!r}, kernel={kernel!r}, groups={groups!r}. wav2vec 2.0 has 768, 128 and 16."
            )
        self.groups = groups
        self.direction = nn.Parameter(torch.empty(dim, dim // groups, kernel))
        self.gain, self.shift = nn.Parameter(torch.empty(kernel)), nn.Parameter(torch.empty(dim))
        self.reset_parameters(generator)
        self.claims = Claims(
            translation="exact",
            isometric=True,
            learned=True,
            range=None,
            axes=1,
            sites=frozenset({"mix"}),
            sharing="layer",
            cacheable=False,
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the initial weights again, also after the module was built on the meta device.

        Args:
            generator: Random generator. Default: torch's global generator.
        """
        with torch.no_grad():
            dim, _, kernel = self.direction.shape
            self.direction.normal_(0, 2 / math.sqrt(kernel * dim), generator=generator)
            self.gain.copy_(self._norm())
            self.shift.zero_()

    def load_wav2vec2(self, module: nn.Module) -> None:
        """Copy the weights of ``Wav2Vec2PositionalConvEmbedding`` of transformers.

        Args:
            module: The module, ``model.encoder.pos_conv_embed``.

        Raises:
            ValueError: If it has weights of another shape or number of groups.
        """
        state = module.state_dict()
        names = ("parametrizations.weight.original0", "parametrizations.weight.original1", "bias")
        given = [state.get(f"conv.{name}") for name in names]
        shapes = [None if each is None else tuple(each.shape) for each in given]
        wanted = [(1, 1, len(self.gain)), tuple(self.direction.shape), tuple(self.shift.shape)]
        if shapes != wanted:
            raise ValueError(
                f"this ConvPE has gain, direction and shift of shapes {wanted}; the module has {shapes}. Build it with "
                "ConvPE(hidden_size, num_conv_pos_embeddings, num_conv_pos_embedding_groups)."
            )
        with torch.no_grad():
            for own, other in zip((self.gain, self.direction, self.shift), given, strict=True):
                assert other is not None
                own.copy_(other.reshape(own.shape))

    def _norm(self) -> Tensor:
        """Return ``|V_u|``, ``(k,)``."""
        return torch.linalg.vector_norm(self.direction, dim=(0, 1))

    @override
    def prepare(self, pos: Positions) -> TokenGrid:
        return token_grid(self._take(pos), 1, "ConvPE")

    @override
    def mix(self, x: Tensor, where: TokenGrid) -> Tensor:
        return map_grid(x, where, "ConvPE", self._added)

    def _added(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        if 0 in shape:
            return x
        tokens, kernel = require_width(x, len(self.shift), "ConvPE", "tokens"), len(self.gain)
        weight = (self.direction * (self.gain / self._norm())).to(x.dtype)
        row = functional.pad(tokens.mT, (kernel // 2, (kernel - 1) // 2))
        return x + functional.gelu(functional.conv1d(row, weight, self.shift.to(x.dtype), groups=self.groups)).mT

    @override
    def define_mix(self, x: Tensor, pos: Positions, n: int) -> Tensor:
        dim, width, kernel = self.direction.shape
        z = list(self.shift)
        for u in range(kernel):
            at = n + u - kernel // 2
            if 0 <= at < len(x):
                size = torch.sqrt((self.direction[..., u] ** 2).sum())
                for o in range(dim):
                    first = o // (dim // self.groups) * width
                    z[o] = z[o] + self.gain[u] * self.direction[o, :, u] @ x[at, first : first + width] / size
        z = torch.stack(z)
        return x[n] + z * 0.5 * (1 + torch.erf(z / math.sqrt(2)))
