"""Options of the explorer are those of the constructors, as text that builds the same encoding."""

from __future__ import annotations

import pytest
import torch

from posenc.lookup.scheme_text import build, call_text, parse
from posenc.schemes import catalogue
from posenc.schemes.rope import RoPE
from posenc.schemes.sum import Sum
from posenc.schemes.t5_bias import T5Bias
from posenc.workbench.explorer.code_text import code_of
from posenc.workbench.explorer.configurations import configurations
from posenc.workbench.explorer.options import option_texts, options_of, stops, value_text

pytestmark = pytest.mark.bare


def test_options_of_a_constructor() -> None:
    options = {each.name: each for each in options_of(T5Bias)}
    assert list(options) == ["heads", "buckets", "max_distance", "bidirectional"]  # no generator
    assert [each.kind for each in options.values()] == ["number", "number", "number", "menu"]
    assert options["heads"].required
    assert (options["buckets"].default, options["bidirectional"].values) == ("32", ("False", "True"))
    assert {"8", "32", "12", "128"} <= {*options["buckets"].values, *options["max_distance"].values}


def test_a_literal_is_a_menu_and_a_schedule_a_text() -> None:
    options = {each.name: each for each in options_of(RoPE)}
    assert options["pairing"].kind == "menu"
    assert options["pairing"].values == ("'interleaved'", "'half'", "'across'")
    schedules = options["frequencies"]
    assert schedules.kind == "text"
    assert schedules.default == "None"
    written = [text for text in schedules.values if "(count=" in text]
    assert [text.partition("(")[0] for text in written] == ["linear", "ntk", "yarn"]
    for text in written:
        assert isinstance(build(parse(f"RoPE(64, frequencies={text})"), {}), RoPE)


def test_dials_go_around_the_usual_value() -> None:
    assert stops(64, 5) == [32, 64, 128, 256]
    assert stops(4, 128)[:3] == [1, 2, 3]
    assert stops(64, 128)[:2] == [2, 4]
    assert stops(10000.0, 5) == [100.0, 1000.0, 10000.0, 100000.0, 1000000.0]
    assert len(stops(10000.0, 128)) == 41
    assert 0.0 in stops(0.0, 5)


def test_values_as_text() -> None:
    assert value_text(torch.tensor([[1, 0]])) == "((1, 0),)"
    assert value_text([RoPE(8)]) == "[RoPE(head_dim=8)]"
    assert value_text({"schedule": "ntk", "options": {"count": 4, "factor": 2.0}}) == "ntk(count=4, factor=2.0)"
    assert value_text(torch.zeros(100)) is None  # too long to type
    assert value_text(torch.Generator()) is None


@pytest.mark.parametrize("call", ["Sum([RoPE(64, frequencies=yarn(factor=4.0, trained=1024)), ALiBi(4)])", "RoPE(64)"])
def test_the_code_makes_the_encoding(call: str) -> None:
    code, names = code_of(parse(call)), dict[str, object]()
    exec(code, names)
    assert type(names["scheme"]).__name__ == call.partition("(")[0]


@pytest.mark.parametrize("kind", [RoPE, Sum])
def test_the_site_has_every_declared_example_and_a_grid(kind) -> None:
    found = configurations(kind)
    assert len({each.key for each in found}) == len(found)
    texts = [call_text(each.call) for each in found]
    declared = options_of(kind, fine=False)
    for example in kind.examples:
        wanted = option_texts(dict(example), declared)
        assert any(each.texts == wanted for each in found), wanted
    if kind is RoPE:
        assert texts[0] == "RoPE(head_dim=64)"
        assert "RoPE(head_dim=64, base=100.0)" in texts
        assert "RoPE(head_dim=64, pairing='half')" in texts


@pytest.mark.full
@pytest.mark.parametrize("name", catalogue())
def test_options_of_every_scheme_build_what_they_say(name: str) -> None:
    kind = catalogue()[name]
    declared = options_of(kind)
    assert {each.kind for each in declared} <= {"number", "menu", "text"}
    for each in configurations(kind):
        if each.kind is None:
            assert parse(call_text(each.call)) == each.call
            assert option_texts(each.call.options, declared) == each.texts
