"""Triton's rotation of pairs against the torch form: values, gradients, layouts, rounding, gathered and in place."""

import pytest
import torch
from interpreted import agree, interpreted
from torch import Tensor

from posenc.kernels import rotary
from posenc.kernels.kernel_form import kernel_form
from posenc.kernels.rotary import PAIRINGS, Pairing, Rotation, rotate, rotate_in_place
from posenc.kernels.rotary_table import rotate_by_table

pytestmark = [pytest.mark.bare, interpreted]

B, H, N, D = 2, 4, 5, 6
TABLES = {"tokens": (N,), "heads": (H, N), "one head": (B, 1, N), "all": (B, H, N)}


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def numbers(before: tuple[int, ...], pairing: Pairing, dtype: torch.dtype = torch.float64, width: int = D) -> Tensor:
    drawn = draw(*before, width // 2, 2, seed=1, dtype=dtype)
    return drawn if pairing == "interleaved" else drawn.mT.contiguous()


@pytest.fixture(autouse=True)
def launches(monkeypatch) -> list[str]:
    """The launches of the kernel, so that a test knows that its numbers came from there."""
    from posenc.kernels.triton_forms import rotary as triton_form

    seen, launch = [], triton_form._launch

    def noted(*given, **named):
        seen.append("rotate")
        return launch(*given, **named)

    monkeypatch.setattr(triton_form, "_launch", noted)
    return seen


@pytest.mark.parametrize("back", [False, True], ids=["on", "back"])
@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("before", TABLES.values(), ids=TABLES)
def test_values_and_gradients_of_vectors_and_rotations(pairing, before, back, launches):
    def call(x, cos_sin):
        return rotate(x, Rotation(cos_sin, pairing), back=back)

    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-14)):
        agree(call, draw(B, H, N, D, dtype=dtype), numbers(before, pairing, dtype), tolerance=tolerance)
    assert len(launches) == 4  # forward and backward, in two data types


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_part_of_a_head_is_rotated_and_the_rest_is_copied(pairing):
    def call(x, cos_sin):
        return rotate(x, Rotation(cos_sin, pairing))

    for width in (D + 1, D + 5):
        agree(call, draw(B, H, N, width, dtype=torch.float32), numbers((N,), pairing, torch.float32))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_layouts_of_memory_that_are_not_contiguous(pairing, launches):
    layouts = {
        "heads after tokens": draw(B, N, H, D).transpose(1, 2),
        "from an odd place": draw(B, H, N, D + 1)[..., 1:],
        "channels far apart": draw(B, H, D, N).mT,
        "one sample for all": draw(1, H, N, D).expand(B, -1, -1, -1),
        "every second token": draw(B, H, 2 * N, D)[:, :, ::2],
    }
    by = Rotation(numbers((B, N, H), pairing).transpose(1, 2), pairing)
    for layout, x in layouts.items():
        with kernel_form("triton"):
            found = rotate(x, by)
        torch.testing.assert_close(found, rotate(x, by), msg=layout)
        assert found.is_contiguous(), layout
    assert len(launches) == len(layouts)


def test_sizes_that_fill_no_block():
    for heads, tokens, pairs in ((1, 1, 1), (3, 1, 5), (1, 33, 3), (5, 17, 17)):
        for pairing in ("interleaved", "half"):

            def call(x, cos_sin, pairing=pairing):
                return rotate(x, Rotation(cos_sin, pairing))

            agree(
                call, draw(2, heads, tokens, 2 * pairs), numbers((tokens,), pairing, width=2 * pairs), tolerance=1e-14
            )


def test_more_tokens_than_one_program_rotates(monkeypatch):
    from posenc.kernels.triton_forms import rotary as triton_form

    monkeypatch.setattr(triton_form, "TILE", 32)
    for pairing in ("interleaved", "half"):

        def call(x, cos_sin, pairing=pairing):
            return rotate(x, Rotation(cos_sin, pairing))

        agree(call, draw(B, 2, 11, D), numbers((B, 1, 11), pairing), tolerance=1e-14)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_second_derivatives_are_those_of_the_torch_form(pairing):
    def call(x, cos_sin):
        return rotate(x, Rotation(cos_sin, pairing)).sin()

    agree(call, draw(B, H, N, D), numbers((N,), pairing), tolerance=1e-12, order=2)
    with kernel_form("triton"):
        inputs = draw(1, 1, 2, 4).requires_grad_(), numbers((2,), pairing, width=4).requires_grad_()
        assert torch.autograd.gradcheck(call, inputs, fast_mode=True)
        assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sixteen_bit_vectors_are_rounded_once(pairing, dtype):
    """The interpreter cuts bfloat16 off where the compiled kernel rounds: test_triton_compiled.py."""
    x, by = draw(B, H, N, D, dtype=dtype), Rotation(numbers((N,), pairing, torch.float32), pairing)
    with kernel_form("triton"):
        found, wide = rotate(x, by), rotate(x.float(), by)
    assert found.dtype == dtype
    cut = wide.view(torch.int32).bitwise_and(-65536).view(torch.float32)
    assert torch.equal(found, cut.bfloat16() if dtype == torch.bfloat16 else wide.half())
    assert torch.equal(rotary._plain_formula(x.float(), by, False), wide)  # the same bits: nothing is fused


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_sixteen_bit_vectors_meet_rotations_in_float64(dtype):
    """Values are rounded to float32 first, as torch does; the interpreter casts float64 to bfloat16 as integers."""
    for pairing in PAIRINGS:
        x, by = draw(B, H, N, D + 2, dtype=dtype), Rotation(numbers((N,), pairing), pairing)
        with kernel_form("triton"):
            found = rotate(x, by)
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), rotate(x.double(), by), rtol=2**-7, atol=2**-7)


def test_grouped_heads_and_a_scheme_with_learned_frequencies():
    from posenc import MixedRoPE, attention, grid

    scheme, pos = MixedRoPE(8, axes=2, heads=2), grid(2, 3)

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, scheme=scheme, q_pos=pos)

    agree(call, draw(2, 4, 6, 8, dtype=torch.float32), *draw(2, 2, 2, 6, 8, dtype=torch.float32, seed=3).unbind())
    gradients = []
    for form in ("torch", "triton"):
        scheme.zero_grad()
        with kernel_form(form):
            call(draw(2, 4, 6, 8).float(), *draw(2, 2, 2, 6, 8, seed=3).float().unbind()).square().sum().backward()
        gradients.append([each.grad for each in scheme.parameters()])
    assert all(each.abs().max() > 0 for each in gradients[0])
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_rotations_gathered_by_positions_on_several_axes(pairing, launches):
    table, axis_of = Rotation(numbers((7,), pairing), pairing), (0, 2, 1)
    for shape, back in (((N, 3), False), ((B, N, 3), True), ((1, N, 3), False)):
        index = torch.randint(7, shape, generator=torch.Generator().manual_seed(2))

        def call(x, index=index, back=back):
            return rotate_by_table(x, table, index, axis_of, back=back).sin()

        agree(call, draw(B, H, N, D + 2), tolerance=1e-14, order=2 if back else 1)
    assert len(launches) == 2 + 4 + 2  # forward and gradient, once with the gradients of both
    narrow = torch.tensor([[6, 0, 5]] * N, dtype=torch.uint8)
    with kernel_form("triton"):
        found = rotate_by_table(draw(B, H, N, D), table, narrow, axis_of)
    torch.testing.assert_close(found, rotate_by_table(draw(B, H, N, D), table, narrow, axis_of))


def test_a_position_outside_the_table_reads_no_other_memory():
    """On a GPU the host does not read positions, so the kernel itself must know them."""
    from posenc.kernels.triton_forms import rotary as triton_form

    table, index = Rotation(numbers((7,), "half"), "half"), torch.tensor([[0], [6], [7], [-1], [3]])
    at = triton_form.Gathered(index[None], torch.zeros(3, dtype=torch.int32))
    found = triton_form.rotate_by_table(draw(B, H, N, D), table, at)
    known = torch.tensor([True, True, False, False, True])
    assert torch.equal(found.isnan(), ~known[:, None].expand(B, H, N, D))
    with kernel_form("triton"), pytest.raises(ValueError, match="this table has the positions 0 to 6; got -1 to 7"):
        rotate_by_table(draw(B, H, N, D), table, index, (0, 0, 0))


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_in_place_without_a_gradient(pairing, launches):
    by = Rotation(numbers((B, 1, N), pairing), pairing)
    for x in (draw(B, H, N, D + 2), draw(B, N, H, D).transpose(1, 2)):
        expected, memory = rotate(x, by), x.data_ptr()
        with kernel_form("triton"):
            found = rotate_in_place(x, by)
        assert found is x
        assert x.data_ptr() == memory
        torch.testing.assert_close(x, expected)
    with kernel_form("triton"), pytest.raises(ValueError, match="rotate_in_place has no gradient"):
        rotate_in_place(draw(B, H, N, D).requires_grad_(), by)
    assert len(launches) == 2


def test_what_the_kernel_does_not_compute_stays_with_the_torch_form(launches):
    by, x = Rotation(numbers((3, 1, N), "half"), "half"), draw(1, H, N, D)
    with kernel_form("triton"):
        wider = rotate(x, by)  # one sample for several rotations
        vmapped = torch.func.vmap(lambda x: rotate(x, Rotation(by.cos_sin[0], "half")))(x[None])
        empty = rotate(draw(3, H, N, D)[:0], Rotation(by.cos_sin[:1], "half"))
    torch.testing.assert_close(wider, rotate(x, by))
    torch.testing.assert_close(vmapped[0], rotate(x, Rotation(by.cos_sin[0], "half")))
    assert empty.shape == (0, H, N, D)
    assert launches == []


@pytest.mark.compile
def test_a_compiled_model_has_one_graph_of_the_torch_form(launches):
    by = Rotation(numbers((N,), "half"), "half")
    compiled = torch.compile(lambda x: rotate(x, by).sin(), backend="aot_eager", fullgraph=True)
    x = draw(B, H, N, D)
    with kernel_form("triton"):
        torch.testing.assert_close(compiled(x), rotate(x, by).sin())
    assert len(launches) == 1  # of the call that is not compiled


def test_autocast_changes_nothing():
    by, x = Rotation(numbers((N,), "half", torch.float32), "half"), draw(B, H, N, D, dtype=torch.float32)
    with kernel_form("triton"), torch.autocast("cpu", torch.bfloat16):
        found = rotate(x, by)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, rotate(x, by))
