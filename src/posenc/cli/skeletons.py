"""Skeletons of new encodings: one that is guided by the contract, and one per site that passes it as written."""

from __future__ import annotations

from typing import Literal

Site = Literal["bias", "qk", "embed"]
MOST_AXES = 3
"""Largest number of axes of a skeleton; its examples are 12 channels wide."""


def skeleton(class_name: str, site: Site | None, axes: int) -> str:
    """Text of a Python file with a new encoding.

    Args:
        class_name: Name of the class.
        site: "bias" (on the logits), "qk" (a rotation of queries and keys) or "embed" (rows added to the input); None
            for the guided skeleton, whose first check names the method to write.
        axes: Number of position axes.

    Returns:
        The text.
    """
    if site is None:
        text = HEADER.replace("FORMULA", "the formula, with the symbols of the paper") + GUIDED
    else:
        formula, body = {"bias": BIAS, "qk": ROTATION, "embed": EMBEDDING}[site]
        text = HEADER.replace("FORMULA", formula) + body
    return text.replace("MyScheme", class_name).replace("AXES", str(axes))


HEADER = '''"""One sentence that names this encoding; posenc list shows it.

    FORMULA

Source: authors, year, arXiv number, equations. Conventions: choices that the paper leaves open.
"""

from __future__ import annotations

'''

GUIDED = '''import torch
from posenc import Claims, Positions, Scheme


class MyScheme(Scheme):
    """One-line summary of the encoding.

    Args:
        dim: Width of the embedding.
        scale: Describe every argument, with its unit and default.
    """

    cite = ""
    examples = ({"dim": 12}, {"dim": 12, "scale": 0.5})

    def __init__(self, dim: int, scale: float = 1.0) -> None:
        super().__init__()
        self.dim, self.scale = dim, scale
        self.claims = Claims(  # Every claim is measured; posenc check names a wrong one.
            translation="none",
            isometric=False,
            learned=False,
            range=None,
            axes=AXES,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    @property
    def out_dim(self) -> int:
        return self.dim

    def prepare(self, pos: Positions) -> torch.Tensor:
        self._take(pos)  # Raises ValueError for positions that the claims exclude.
        raise NotImplementedError("prepare: make the rows here, zero for tokens without a position (pos.placed)")

    def embed(self, where: torch.Tensor) -> torch.Tensor:
        return where

    def define_embed(self, p: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("define_embed: the formula for one position, loops allowed, float64")
'''

BIAS = (
    "s_ij = q_i . k_j - m_h |p_j - p_i|,   m_h = scale / h,   h = 1 .. H",
    '''import torch
from posenc import Claims, Positions, Scheme
from posenc.kernels.pairs import Pairs
from posenc.scheme import At, per_head


class MyScheme(Scheme):
    """One-line summary of the encoding: a bias on the logits.

    Args:
        heads: Number H of query heads.
        scale: Slope of the first head, per unit of distance. Default 1.
    """

    cite = ""
    examples = ({"heads": 4}, {"heads": 4, "scale": 0.5})
    bias_reads = frozenset()  # The bias depends on positions alone.

    def __init__(self, heads: int, scale: float = 1.0) -> None:
        super().__init__()
        self.slopes = tuple(scale / h for h in range(1, heads + 1))
        self.claims = Claims(  # Every claim is measured; posenc check names a wrong one.
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=AXES,
            sites=frozenset({"bias"}),
            sharing="head" if heads > 1 else "model",
            cacheable=True,
        )

    def prepare(self, pos: Positions) -> Positions:
        return self._take(pos)  # Raises ValueError for positions that the claims exclude.

    def relate(self, where_q: Positions, where_k: Positions) -> Pairs:
        return Pairs(where_q, where_k)

    def bias(self, q, k, kept, pair: Pairs, attn_mask) -> torch.Tensor:
        slopes = per_head(torch.tensor(self.slopes, dtype=pair.dtype, device=q.device), q, "MyScheme", dim=0)
        return pair.neutral(-slopes[:, None, None] * pair.far())  # neutral: 0 for tokens without a position

    def define_bias(self, at: At) -> torch.Tensor:
        distance = torch.linalg.vector_norm(at.k_pos[at.j] - at.q_pos[at.i])
        return -self.slopes[at.head.among(len(self.slopes))] * distance
''',
)

ROTATION = (
    "q_i' = R(p_i) q_i,   k_j' = R(p_j) k_j;   pair n of axis a turns by p_a theta_n,   theta_n = base^(-n / N)",
    '''import torch
from posenc import Claims, Positions, Scheme
from posenc.kernels.rotary import Rotation, prepare_rotation, rotate, with_head_axis


class MyScheme(Scheme):
    """One-line summary of the encoding: a rotation of queries and keys.

    Args:
        head_dim: Width of a head, a multiple of twice the number of axes.
        base: Base of the frequencies, which are in radians per unit of position. Default 100.
    """

    cite = ""
    examples = ({"head_dim": 12}, {"head_dim": 12, "base": 10.0})

    def __init__(self, head_dim: int, base: float = 100.0) -> None:
        super().__init__()
        pairs = head_dim // (2 * AXES)  # pairs of channels of each axis
        if head_dim < 1 or head_dim != 2 * AXES * pairs:
            raise ValueError(f"MyScheme needs a `head_dim` that is a multiple of {2 * AXES}; got {head_dim}.")
        self.head_dim = head_dim
        self.theta = tuple(base ** (-n / pairs) for n in range(pairs))
        self.claims = Claims(  # Every claim is measured; posenc check names a wrong one.
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=AXES,
            sites=frozenset({"q", "k"}),
            sharing="model",
            cacheable=True,
        )

    @property
    def head_width(self) -> int:
        return self.head_dim

    def prepare(self, pos: Positions) -> Rotation:
        self._take(pos)  # Raises ValueError for positions that the claims exclude.
        coords = with_head_axis(pos.precise(), pos)  # float64, so that far positions keep their angles
        theta = torch.tensor(self.theta, dtype=coords.dtype, device=coords.device)
        return prepare_rotation((coords[..., None] * theta).flatten(-2), pos, "interleaved")

    def transform(self, x: torch.Tensor, where: Rotation, site: str) -> torch.Tensor:
        return rotate(x, where) if site in ("q", "k") else x

    def rerotate(self, x: torch.Tensor, where_from: Rotation, where_to: Rotation, site: str = "k") -> torch.Tensor:
        return rotate(x, where_to.after(where_from)) if site == "k" else x  # moves a cached key

    def define_transform(self, x: torch.Tensor, p: torch.Tensor, site: str, head: int) -> torch.Tensor:
        if site not in ("q", "k"):
            return x
        y, angles = list(x), [coordinate * theta for coordinate in p for theta in self.theta]
        for n, angle in enumerate(angles):
            a, b = 2 * n, 2 * n + 1
            y[a] = x[a] * torch.cos(angle) - x[b] * torch.sin(angle)
            y[b] = x[b] * torch.cos(angle) + x[a] * torch.sin(angle)
        return torch.stack(y)
''',
)

EMBEDDING = (
    "PE(p) = [cos(p_a theta_n), sin(p_a theta_n)],   axes a = 1 .. P,   theta_n = base^(-n / N),   n = 0 .. N - 1",
    '''import torch
from posenc import Claims, Positions, Scheme


class MyScheme(Scheme):
    """One-line summary of the encoding: rows that a model adds to its input.

    Args:
        dim: Width of the embedding, a multiple of twice the number of axes.
        base: Base of the frequencies, which are in radians per unit of position. Default 100.
    """

    cite = ""
    examples = ({"dim": 12}, {"dim": 12, "base": 10.0})

    def __init__(self, dim: int, base: float = 100.0) -> None:
        super().__init__()
        pairs = dim // (2 * AXES)  # pairs of channels of each axis
        if dim < 1 or dim != 2 * AXES * pairs:
            raise ValueError(f"MyScheme needs a `dim` that is a multiple of {2 * AXES}; got {dim}.")
        self.dim = dim
        self.theta = tuple(base ** (-n / pairs) for n in range(pairs))
        self.claims = Claims(  # Every claim is measured; posenc check names a wrong one.
            translation="exact",
            isometric=True,
            learned=False,
            range=None,
            axes=AXES,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    @property
    def out_dim(self) -> int:
        return self.dim

    def prepare(self, pos: Positions) -> torch.Tensor:
        self._take(pos)  # Raises ValueError for positions that the claims exclude.
        coords = pos.precise()  # float64, so that far positions keep their angles
        theta = torch.tensor(self.theta, dtype=coords.dtype, device=coords.device)
        angles = coords[..., None] * theta  # (.., N, P, pairs)
        rows = torch.stack([angles.cos(), angles.sin()], -1).flatten(-3).to(pos.table_dtype)
        return rows if pos.placed is None else rows * pos.placed[..., None]  # 0 for tokens without a position

    def embed(self, where: torch.Tensor) -> torch.Tensor:
        return where

    def define_embed(self, p: torch.Tensor) -> torch.Tensor:
        angles = [coordinate * theta for coordinate in p for theta in self.theta]
        return torch.stack([part for angle in angles for part in (torch.cos(angle), torch.sin(angle))])
''',
)
