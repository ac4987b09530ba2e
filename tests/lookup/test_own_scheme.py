"""Schemes of one's own as text: their code, the name that follows from it, and what is refused."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import sys
from pathlib import Path

import pytest
import torch

import posenc.frequencies as schedules
from posenc.lookup import own_scheme, scheme_text
from posenc.positions import sequence
from posenc.schemes.graph_distance import GraphDistance
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid
from posenc.schemes.sum import Sum

pytestmark = pytest.mark.bare

SOURCE = """
import math
import torch
import torch.nn.functional as F
from torch import Tensor, cos, nn
from posenc import Claims, Positions, Scheme

SCALE = {scale}
x = torch.ones(3)  # a local variable of `wave` has this name too

def wave(x: Tensor) -> Tensor:
    return cos(SCALE * math.pi * F.relu(x))

def unused() -> Tensor:
    return x

class Ramp(Scheme):
    examples = ({{"dim": 4}},)

    def __init__(self, dim: int, slope: float = 1.0, names: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.dim, self.slope, self.names = dim, slope, names
        self.size = nn.Parameter(torch.ones(dim))
        self.claims = Claims(translation="none", isometric=False, learned=True, range=None, axes=1,
                             sites=frozenset({{"embed"}}), sharing="model", cacheable=True)

    @property
    def out_dim(self) -> int:
        return self.dim

    def prepare(self, pos: Positions) -> Tensor:
        return wave(self.slope * self._take(pos).coords.float()).expand(-1, self.dim) * self.size

    def embed(self, where: Tensor) -> Tensor:
        return where

class Tensorial(Ramp):
    def embed(self, where: Tensor) -> Tensor:
        return where * x.sum()
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes the source to a file and imports it."""

    def write(scale: float = 2.0, name: str = "mine", text: str = ""):
        path = tmp_path / f"{name}.py"
        path.write_text(text or SOURCE.format(scale=scale))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return write


def test_a_class_and_an_object_become_text_that_builds_the_same_scheme(written) -> None:
    module = written()
    name = own_scheme.text_of(module.Ramp)
    assert name.startswith("Ramp_")
    assert own_scheme.text_of(copy.deepcopy(module.Ramp(4))) == f"{name}(dim=4)"
    text = own_scheme.text_of(module.Ramp(dim=4, slope=0.5, names=("a",)))
    assert text == f"{name}(dim=4, slope=0.5, names=('a',))"
    parsed = scheme_text.parse(text)
    assert parsed.scheme == name  # the name that a run stores
    built, pos = scheme_text.build(parsed, {"dim": 8}), sequence(5)
    torch.testing.assert_close(built.prepare(pos), module.Ramp(4, 0.5).prepare(pos), rtol=0, atol=0)
    assert scheme_text.build(scheme_text.parse(name), {"dim": 8, "heads": 2}).out_dim == 8


def test_the_code_holds_what_the_class_uses_and_nothing_else(written) -> None:
    name = own_scheme.text_of(written().Ramp)  # from now on there is code
    code = own_scheme.codes()[name]
    for line in (
        "SCALE = 2.0",
        "import math as math",
        "import torch.nn.functional as F",
        "from torch import cos as cos",
    ):
        assert line in code.splitlines()
    assert "def wave" in code
    for absent in ("unused", "ones(3)", "Tensorial"):
        assert absent not in code


def test_the_name_follows_from_the_code(written, tmp_path: Path) -> None:
    name = own_scheme.text_of(written().Ramp)
    assert own_scheme.text_of(written(name="elsewhere").Ramp) == name
    assert own_scheme.text_of(written(scale=3.0, name="edited").Ramp) != name
    kept = written(name="kept", text=own_scheme.codes()[name])  # the file that a store keeps
    assert own_scheme.text_of(kept.Ramp) == name


def test_code_is_available_only_where_it_was_passed(written, monkeypatch: pytest.MonkeyPatch) -> None:
    name = own_scheme.text_of(written().Ramp)
    code = own_scheme.codes()[name]
    monkeypatch.delitem(sys.modules, own_scheme.PACKAGE + name)
    assert name not in own_scheme.codes()
    with pytest.raises(ValueError, match=f"{name} is a scheme of your own, and no code is read from a store"):
        scheme_text.parse(name)
    own_scheme.add_codes({name: code})  # as a worker process does
    assert scheme_text.build(scheme_text.parse(name), {"dim": 2}).out_dim == 2


def test_schemes_of_posenc_keep_their_plain_names() -> None:
    assert own_scheme.text_of(RoPE) == "RoPE"
    assert own_scheme.text_of(Sinusoid(8, axes=2)) == "Sinusoid(dim=8, axes=2)"
    assert own_scheme.find("RoPE") is None


def test_what_cannot_be_made_anew_is_refused(written) -> None:
    module = written()

    class Inside(module.Ramp):
        pass

    for wrong, sentence in (
        (module.Tensorial, "Tensorial uses x, which is a Tensor and cannot be written as text"),
        (Inside, "Inside is defined inside a function or class. Define it at the top level"),
        (object(), "object is not a scheme. Pass a name, a subclass of posenc.Scheme"),
        (GraphDistance(1, edges=torch.tensor([[0, 1]])), r"GraphDistance has the argument edges=Tensor\(\.\.\), which"),
    ):
        with pytest.raises(ValueError, match=sentence):
            own_scheme.text_of(wrong)
    with pytest.raises(ValueError, match=r"the code of Broken cannot run on its own: NameError: .*absent"):
        own_scheme.add_codes({"Broken_00000000": "class Broken:\n    x = absent\n"})


def test_frequencies_in_a_tensor_are_written_exactly() -> None:
    theta = schedules.ntk(4, factor=3.0)
    for given in (theta, schedules.Frequencies(theta), theta.tolist()):
        text = own_scheme.text_of(RoPE(8, frequencies=given))
        assert scheme_text.build(scheme_text.parse(text), {}).theta == RoPE(8, frequencies=theta).theta
    with pytest.raises(ValueError, match=r"argument generator=Generator\(\.\.\), which text cannot hold"):
        own_scheme.text_of(Learned(8, 4, generator=torch.Generator()))


def test_frequencies_with_an_attention_factor_are_written_exactly() -> None:
    given = RoPE(8, frequencies=schedules.yarn(4, factor=4.0, trained=2048))
    text = own_scheme.text_of(given)
    assert text.startswith("RoPE(head_dim=8, frequencies=Frequencies([1.0, ")
    again = scheme_text.build(scheme_text.parse(text), {})
    assert (again.theta, again.attention_factor) == (given.theta, given.attention_factor)
    assert own_scheme.text_of(again) == text
    assert given.attention_factor > 1


def test_an_object_that_is_made_of_others_becomes_text_with_their_arguments(written) -> None:
    module = written()
    name = own_scheme.text_of(module.Ramp)
    text = own_scheme.text_of(Sum([Sinusoid(4), module.Ramp(4, slope=0.5)], translation="none"))
    assert text == f"Sum(parts=[Sinusoid(dim=4), {name}(dim=4, slope=0.5)], translation='none')"
    assert scheme_text.build(scheme_text.parse(text), {}).out_dim == 4
    assert scheme_text.parse(f"Sum([{name}, RoPE])").options["parts"][0]["scheme"] == name  # a name without brackets


def test_the_origin_of_the_code_tells_an_edited_file(written, tmp_path: Path) -> None:
    source = own_scheme.source(own_scheme.text_of(written(text=SOURCE.format(scale=5.0).rstrip()).Ramp))
    assert source is not None
    assert source.name == "mine:Ramp"
    assert len(source.digest) == 64
    assert not source.edited
    (tmp_path / "mine.py").write_text(SOURCE.format(scale=6.0))
    assert source.edited
    (tmp_path / "mine.py").unlink()
    assert source.edited
    assert own_scheme.source("RoPE") is None


def test_the_origin_is_the_file_that_was_read_last(written) -> None:
    name = own_scheme.text_of(written(scale=7.0).Ramp)
    assert own_scheme.text_of(written(scale=7.0, name="copied").Ramp) == name
    source = own_scheme.source(name)
    assert source is not None
    assert source.name == "copied:Ramp"


@pytest.mark.parametrize("bias", ["pack.bias", "bias_alone"])
def test_an_edited_module_of_the_same_package_or_beside_the_file_is_another_scheme(
    bias: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = []
    for number in (1, 2):
        package = tmp_path / str(number) / "pack"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "deep.py").write_text(f"FACTOR = {number}\n")
        (package / "wave.py").write_text("from pack import deep\n\n\ndef wave(x):\n    return deep.FACTOR * x\n")
        text = SOURCE.format(scale=2.0).partition("def wave")[0] + "from pack.wave import wave\n\n"
        text += "class Ramp" + SOURCE.format(scale=2.0).split("class Ramp")[1]
        (package.parent / f"{bias.replace('.', '/')}.py").write_text(text)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / str(number))
            for name in [name for name in sys.modules if name.partition(".")[0] in ("pack", "bias_alone")]:
                patch.delitem(sys.modules, name)
            names.append(own_scheme.text_of(importlib.import_module(bias).Ramp))
    assert names[0] != names[1]


def test_a_library_and_posenc_have_no_digest_in_a_name(written) -> None:
    name = own_scheme.text_of(written(scale=3.0).Ramp)
    code = own_scheme.codes()[name]
    imports = [line for line in code.splitlines() if line.startswith(("import ", "from "))]
    assert len(imports) >= 4
    assert not [line for line in imports if "#" in line]
