"""ConcatAxes: embeddings of different axes, concatenated, such as one of longitude and latitude and one of time.

    e_p = [e^1(p_1 .. p_a) | e^2(p_a+1 .. p_b) | ..],    e_p . e_r = e^1_p . e^1_r + e^2_p . e^2_r + ..

Each part reads as many axes as it has, in the order of the parts. Inner products of the parts add: an additive kernel
on a product of spaces. Axes of different kinds, as degrees, meters and days, have no common distance, so each kind has
an encoding of its own scale. A network behind the rows learns how the axes act together.

Source: the additive kernel of order one of Duvenaud, Nickisch and Rasmussen 2011, arXiv 1112.4394, with a term for
each part in place of each axis.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from posenc.claims import Translation
from posenc.kernels import composition
from posenc.kernels.composition import FreshArguments
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme
from posenc.schemes.fourier_features import FourierFeatures
from posenc.schemes.learned import Learned
from posenc.schemes.sinusoid import Sinusoid


class ConcatAxes(Scheme):
    """Concatenation of embeddings, each of axes of its own.

        e_p = [e^1(p_1 .. p_a) | e^2(p_a+1 .. p_b) | ..]

    Args:
        parts: Schemes whose only site is ``embed``, in the order of their axes and of their channels. The axes are
            those of all of them together, and so is the width.

    Raises:
        ValueError: If ``parts`` is empty, a part acts at another site than ``embed``, or takes any number of axes.

    Example:
        >>> import torch
        >>> from posenc import ConcatAxes, Positions, Sinusoid, SphereC
        >>> scheme = ConcatAxes([SphereC(scales=4), Sinusoid(8)])  # longitude, latitude in radians; days
        >>> pos = Positions(torch.tensor([[0.1, 0.9, 12.0], [0.1, 0.9, 13.0]]))
        >>> scheme.embed(scheme.prepare(pos)).shape
        torch.Size([2, 20])

    References:
        Duvenaud, Nickisch and Rasmussen 2011, "Additive Gaussian Processes", arXiv 1112.4394.
    """

    cite = """@inproceedings{duvenaud2011additive,
  title={Additive {Gaussian} Processes},
  author={Duvenaud, David and Nickisch, Hannes and Rasmussen, Carl Edward},
  booktitle={NeurIPS}, year={2011}, note={arXiv:1112.4394}}"""
    shown = "ConcatAxes([Sinusoid(32), Sinusoid(32, base=100.0)])"
    examples = (
        FreshArguments({"parts": lambda: [Sinusoid(8), Sinusoid(4, base=30.0)]}),
        FreshArguments({"parts": lambda: [FourierFeatures(8, axes=2, sigma=0.1), Sinusoid(4)]}),
        FreshArguments({"parts": lambda: [Learned(5, 24), Sinusoid(8)]}),
    )

    parts: Iterable[Any]

    def __init__(self, parts: Sequence[Scheme]) -> None:
        super().__init__()
        composition.refuse_no_schemes("ConcatAxes", parts)
        for part in parts:
            if part.claims.sites != {"embed"} or part.claims.axes is None:
                raise ValueError(
                    "ConcatAxes has schemes that only embed, each of a certain number of axes, as "
                    f"ConcatAxes([SphereC(4), Sinusoid(8)]); got {type(part).__name__}."
                )
        self.parts = nn.ModuleList(parts)
        self.claims = _claims(parts)
        composition.copy_declarations(self, {f"parts.{place}": part for place, part in enumerate(parts)})

    def reset_parameters(self) -> None:
        """Redraw the state of every part; needed after construction on the meta device."""
        composition.reset(self.parts)

    @property
    @override
    def out_dim(self) -> int:
        return sum(part.out_dim for part in self.parts)

    def _slices(self) -> list[tuple[Any, slice]]:
        """The parts, each with its axes."""
        ends = list(itertools.accumulate(part.claims.axes for part in self.parts))
        return [(part, slice(end - part.claims.axes, end)) for part, end in zip(self.parts, ends, strict=True)]

    @override
    def prepare(self, pos: Positions) -> tuple[Any, ...]:
        self._take(pos)
        return tuple(
            part.prepare(dataclasses.replace(pos, coords=pos.coords[..., axes], lattice=None))
            for part, axes in self._slices()
        )

    @override
    def embed(self, where: tuple[Any, ...]) -> Tensor:
        return torch.cat([part.embed(w) for part, w in zip(self.parts, where, strict=True)], -1)

    @override
    def define_rows(self, p: Tensor) -> Tensor:
        return torch.cat([part.define_rows(p[:, axes]) for part, axes in self._slices()], -1)


def _claims(parts: Sequence[Scheme]) -> Claims:
    """Claims that follow from those of the parts, each of axes of its own."""
    known = {part.claims.translation for part in parts}
    translation: Translation = "none" if "none" in known else "expected" if "expected" in known else "exact"
    alone = [dataclasses.replace(part.claims, axes=1, range=None) for part in parts]
    layer, head = (any(getattr(each, name) for each in alone) for name in ("per_layer", "per_head"))
    return dataclasses.replace(
        alone[0],
        translation=translation,
        isometric=all(each.isometric for each in alone),
        learned=any(each.learned for each in alone),
        range=tuple(limits for part in parts for limits in part.claims.limits()),
        axes=sum(part.claims.axes or 0 for part in parts),
        sharing="layer and head" if layer and head else "layer" if layer else "head" if head else "model",
        cacheable=all(each.cacheable for each in alone),
    )
