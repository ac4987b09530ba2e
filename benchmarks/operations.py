"""Bytes and arithmetic of torch's operations: what a step reads, writes and computes at the least in this form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry
from typing_extensions import override

TAYLOR_PRODUCTS, TAYLOR_NORM = 5, 1.09
"""Products of torch's polynomial of degree 18 for a matrix exponential in float64, and the norm up to which no matrix
is halved first (Bader, Blanes and Casas 2019, table 1)."""


class Work(TorchDispatchMode):
    """Counts bytes and arithmetic operations of all operations of torch that compute.

    Attributes:
        bytes: Bytes of all inputs and results.
        operations: 2 m n k for a product of matrices, and one for each number of any other result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.operations = 0.0

    @override
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given, made = ([t for t in pytree.tree_leaves(each) if isinstance(t, Tensor)] for each in ((args, kwargs), out))
        addresses = {t.untyped_storage().data_ptr() for t in given}
        if all(t.untyped_storage().data_ptr() in addresses for t in made) and not func._schema.is_mutable:
            return out  # a view
        self.bytes += sum(t.numel() * t.element_size() for t in (*given, *made))
        packet = func._overloadpacket
        name = str(packet).rpartition(".")[2]
        if packet in flop_registry:
            self.operations += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        elif name in COUNTS:
            self.operations += COUNTS[name](args, made)
        else:
            self.operations += sum(t.numel() for t in made)
        return out


def _attention(args: Any, made: list[Tensor]) -> float:
    q, k, v = args[:3]
    return 2.0 * q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] * (q.shape[3] + v.shape[3])


def _attention_backward(args: Any, made: list[Tensor]) -> float:
    return 2.5 * _attention(args[1:], made)  # five products in place of two


def _linear(args: Any, made: list[Tensor]) -> float:
    return 2.0 * made[0].numel() * args[0].shape[-1]


def _matrix_exponential(args: Any, made: list[Tensor]) -> float:
    matrices = args[0].detach()
    norms = matrices.abs().sum(-2).amax(-1).flatten().tolist()
    halved = sum(max(0, math.ceil(math.log2(norm / TAYLOR_NORM))) for norm in norms if norm > 0)
    return 2.0 * matrices.shape[-1] ** 3 * (TAYLOR_PRODUCTS * len(norms) + halved)


def _triangular_solve(args: Any, made: list[Tensor]) -> float:
    return 1.0 * made[0].numel() * args[0].shape[-1]


COUNTS: dict[str, Callable[[Any, list[Tensor]], float]] = {
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "_linear_pointwise": _linear,
    "linalg_matrix_exp": _matrix_exponential,
    "linalg_solve_triangular": _triangular_solve,
}
"""Operations of those that torch's own count lacks, by name."""


def share(ours: Work, plain: Work) -> dict[str, float]:
    """Bytes and operations as ratios to those of another step."""
    return {"bytes": ours.bytes / plain.bytes, "operations": ours.operations / plain.operations}


def work(run: Callable[[], Any]) -> Work:
    """Bytes and operations of a call."""
    with Work() as counted:
        run()
    return counted
