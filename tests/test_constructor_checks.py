"""Arguments of constructors of another type than their annotation are one sentence; torch took or broke at them."""

import inspect
from typing import Literal

import numpy as np
import pytest
import torch

from posenc.frequencies import yarn
from posenc.scheme import Claims, Scheme
from posenc.schemes.alibi import ALiBi
from posenc.schemes.axial_rope import AxialRoPE
from posenc.schemes.fire import FIRE
from posenc.schemes.fox import FoX
from posenc.schemes.rope import RoPE
from posenc.schemes.shaw import Shaw
from posenc.schemes.sliding_window import SlidingWindow
from posenc.schemes.t5_bias import T5Bias

pytestmark = pytest.mark.bare


def test_a_class_without_a_constructor_of_its_own_has_the_signature_of_the_inherited_one(monkeypatch):
    """Python 3.11.2 took that of ``__new__``, whose parameters no user gives."""
    monkeypatch.setattr("posenc.constructor_checks.OWN_INIT", (4,))

    class Steep(ALiBi):
        pass

    class Steeper(Steep):
        def __init__(self, heads: int):
            super().__init__(heads, slopes=[2.0] * heads)

    assert list(inspect.signature(Steep).parameters) == ["heads", "slopes"]
    assert list(inspect.signature(Steeper).parameters) == ["heads"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: RoPE("16"), r"RoPE takes `head_dim` as a whole number; got '16'"),
        (lambda: RoPE(16.0), r"RoPE takes `head_dim` as a whole number; got 16\.0"),
        (lambda: RoPE(None), r"RoPE takes `head_dim` as a whole number; got None"),
        (lambda: RoPE(16, base="x"), r"RoPE takes `base` as a number; got 'x'"),
        (lambda: T5Bias(4, bidirectional="no"), r"T5Bias takes `bidirectional` as True or False; got 'no'"),
        (lambda: T5Bias(4, buckets=None), r"T5Bias takes `buckets` as a whole number; got None"),
        (lambda: Shaw(16, 4, values="x"), r"Shaw takes `values` as True or False; got 'x'"),
        (lambda: FoX("a", 4), r"FoX takes `dim` as a whole number; got 'a'"),
        (lambda: ALiBi("4"), r"ALiBi takes `heads` as a whole number; got '4'"),
        (lambda: FIRE(4.5), r"FIRE takes `heads` as a whole number; got 4\.5"),
        (lambda: ALiBi(4, slopes=1.0), r"ALiBi takes `slopes` as a list of numbers, a tensor or None; got 1\.0"),
        (
            lambda: ALiBi(2, slopes=np.array(0.5)),
            r"ALiBi takes `slopes` as a list of numbers, a tensor or None; got 0",
        ),
        (lambda: AxialRoPE(12, order={1: 0, 0: 1}), r"AxialRoPE takes `order` as a list of whole numbers or None"),
        (lambda: AxialRoPE(12, order=torch.tensor(1)), r"AxialRoPE takes `order` as a list of whole numbers or None"),
        (lambda: AxialRoPE(12, bands=3), r"AxialRoPE takes `bands` as a list of whole numbers or None; got 3"),
        (lambda: AxialRoPE(12, order="10"), r"takes `order`|names each of 2 axes once"),
        (lambda: SlidingWindow(2, causal="no"), r"no"),  # a sentence of its own comes first
        (lambda: yarn(8, factor=4.0, trained=2048, literal="Unrounded"), r"`literal` is True, False or 'unrounded'"),
    ],
)
def test_another_type_is_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_numbers_of_other_libraries_and_missing_arguments_are_as_before():
    assert RoPE(np.int64(16), base=np.float32(500.0)).theta == RoPE(16, base=500.0).theta
    assert RoPE(16, base=torch.tensor(500.0)).theta == RoPE(16, base=500).theta
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'head_dim'"):
        RoPE()  # pyright: ignore


class Own(Scheme):
    claims = Claims(
        translation="none", isometric=False, learned=False, range=None, axes=1, sites=frozenset(), sharing="model",
        cacheable=True,
    )  # fmt: skip

    def __init__(self, kind: Literal["a", 2] | None = None):
        super().__init__()
        self.kind = kind

    def prepare(self, pos):
        return pos


class Unread(Own):
    def __init__(self, kind: "Unknown | int"):  # pyright: ignore
        super().__init__()
        self.kind = kind


def test_values_of_a_scheme_of_ones_own_are_checked_if_its_annotations_can_be_read():
    assert [Own(kind).kind for kind in ("a", 2, None)] == ["a", 2, None]
    with pytest.raises(ValueError, match=r"Own takes `kind` as 'a', 2 or None; got 'b'"):
        Own("b")  # pyright: ignore
    assert Unread("x").kind == "x"
