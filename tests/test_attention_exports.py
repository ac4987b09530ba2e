"""``attention`` as it is called by users, compiled with symbolic sizes and exported to ONNX, with grouped heads."""

import importlib.util
import re
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

from posenc.attention import attention
from posenc.positions import Positions
from posenc.schemes import catalogue
from posenc.schemes.alibi import ALiBi
from posenc.schemes.fire import FIRE
from posenc.schemes.t5_bias import T5Bias
from tiers import full_except


class WithScheme(nn.Module):
    """The public call, for four query heads and two key heads."""

    def __init__(self, scheme):
        super().__init__()
        self.scheme = scheme

    def forward(self, q, k, v, at):
        return attention(q, k, v, scheme=self.scheme, q_pos=Positions(at), causal=True)


def grouped(n):
    generator = torch.Generator().manual_seed(7)
    q, (k, v) = torch.randn(2, 4, n, 8, generator=generator), torch.randn(2, 2, 2, n, 8, generator=generator)
    return q, k, v, torch.arange(float(n))[:, None]


COMPILED = {"ALiBi": ALiBi(4), "T5Bias": T5Bias(4), "FIRE": FIRE(4)}


@pytest.mark.compile
@pytest.mark.parametrize("scheme", full_except(COMPILED, "ALiBi"))
def test_the_public_call_compiles_with_grouped_heads_and_any_sizes(scheme):
    scheme = COMPILED[scheme]
    module = WithScheme(scheme)
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (5, 9):
        torch.testing.assert_close(compiled(*grouped(n)), module(*grouped(n)))
    torch._dynamo.reset()


@pytest.mark.full
@pytest.mark.compile
@pytest.mark.parametrize("scheme", [T5Bias(4), FIRE(4)], ids=lambda scheme: type(scheme).__name__)
def test_onnx_with_grouped_heads_agrees_at_another_length(scheme, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    module, length = WithScheme(scheme).eval(), torch.export.Dim("length", min=2, max=64)
    shapes = ({2: length}, {2: length}, {2: length}, {0: length})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        program = torch.export.export(module, grouped(6), dynamic_shapes=shapes)
        torch.onnx.export(program, dynamo=True, verbose=False).save(tmp_path / "scheme.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "scheme.onnx", providers=["CPUExecutionProvider"])
    given = dict(zip(("q", "k", "v", "at"), grouped(21), strict=True))
    (out,) = session.run(None, {each.name: given[each.name].numpy() for each in session.get_inputs()})
    torch.testing.assert_close(torch.tensor(out), module(*grouped(21)).detach(), atol=1e-5, rtol=0)


def test_the_page_has_each_scheme_and_no_large_difference():
    path = Path(__file__).parents[1] / "tools" / "exports.py"
    spec = importlib.util.spec_from_file_location("exports", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    rows = re.findall(r"^\| (?!scheme)(\w+) \| .*? \| (.*) \|$", tool.PAGE.read_text(), re.MULTILINE)
    names, of_texts = [name for name, _ in rows], tool.texts()
    wanted = [*of_texts, *(name for name in catalogue() if name not in of_texts)]
    assert names == wanted, "docs/exports.md is outdated: python tools/exports.py"
    refused = {"LieRE": 1, "STRING": 1, "OneBlob": 1, "PaTH": 1, "SelectiveRoPE": 1, "GeoCLIP": 1, "NoPE": 3}
    """Cells without a number: ONNX has no matrix exponential, solvers and stable sort; onnxruntime no erf, asin."""
    for name, cells in rows:
        numbers = [cell for cell in cells.split(" | ") if re.match(r"\d", cell)]
        assert len(numbers) == 3 - refused.get(name, 0), name
        assert all(float(cell) <= tool.ALLOWED for cell in numbers), name
