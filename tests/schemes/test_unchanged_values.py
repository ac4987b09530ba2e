"""Values that no formula checks: defaults of constructors, initial parameters, and which layers and heads share them.

A change of either changes the models of users and stored results without a word. A change on purpose is recorded with
``python tests/schemes/test_unchanged_values.py``. Mutation testing (docs/mutants.md) found that nothing else noticed.
"""

from __future__ import annotations

import inspect
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc.frequencies
from posenc.contract.case import Case
from posenc.schemes import catalogue

RECORDED = Path(__file__).with_name("unchanged_values.json")
NEAR = 1e-4


def defaults(call: Any) -> dict[str, str]:
    """Defaults of the parameters of a function or class, as text."""
    parameters = inspect.signature(call).parameters.values()
    return {each.name: repr(each.default) for each in parameters if each.default is not each.empty}


def functions() -> dict[str, Any]:
    """The public functions of posenc.frequencies and the classes of schemes."""
    module = posenc.frequencies
    found = {name: value for name, value in vars(module).items() if inspect.isfunction(value)}
    return {name: value for name, value in found.items() if value.__module__ == module.__name__} | {**catalogue()}


def initial_values(case: Case) -> dict[str, list[float]]:
    """Mean, standard deviation, minimum and maximum of each parameter and buffer of a new scheme, seed 0."""
    torch.manual_seed(0)
    state = case.kind(**case.options).double().state_dict()
    found = {}
    for name, tensor in state.items():
        if tensor.numel() and tensor.is_floating_point():
            deviation = float(tensor.std(correction=0))
            values = float(tensor.mean()), deviation, float(tensor.min()), float(tensor.max())
            found[name] = [float(f"{value:.6g}") for value in values]
    return found


CASES = [Case(kind, options) for kind in catalogue().values() for options in kind.examples]


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return json.loads(RECORDED.read_text(encoding="utf-8"))


def test_defaults_are_those_recorded(recorded):
    assert {name: defaults(each) for name, each in functions().items()} == recorded["defaults"]


def test_initial_values_are_distributed_as_recorded(recorded):
    assert {str(case) for case in CASES} == set(recorded["initial values"])
    for case in CASES:
        found, wanted = initial_values(case), recorded["initial values"][str(case)]
        assert found.keys() == wanted.keys(), str(case)
        for name, values in found.items():
            near = NEAR * wanted[name][1]
            pairs = zip(values, wanted[name], strict=True)
            same = [math.isclose(a, b, rel_tol=NEAR, abs_tol=near) for a, b in pairs]
            assert all(same), f"{case}, {name}: mean, deviation, minimum and maximum {values}, recorded {wanted[name]}"


DRAWN = [case for case in CASES if "generator" in inspect.signature(case.kind).parameters]


@pytest.mark.parametrize("case", DRAWN, ids=str)
def test_a_generator_decides_all_initial_values(case):
    states = []
    for seed in (1, 2):
        options = dict(case.options)
        torch.manual_seed(seed)
        scheme = case.kind(**options, generator=torch.Generator().manual_seed(7))
        states.append({name: tensor.clone() for name, tensor in scheme.named_parameters() if "scheme." not in name})
    if "generator" in inspect.signature(scheme.reset_parameters).parameters:
        scheme.reset_parameters(torch.Generator().manual_seed(7))
        states.append(dict(scheme.named_parameters()))
    for other in states[1:]:
        assert [name for name, tensor in states[0].items() if not torch.equal(tensor, other[name])] == []


def test_sharing_is_as_recorded(recorded):
    """No measurement tells whether the parameters of a scheme are those of one layer or of all."""
    assert {str(case): case.claims.sharing for case in CASES} == recorded["sharing"]


def record() -> None:
    """Write the present values, one line for each scheme, function and example."""
    parts = {
        "defaults": {name: defaults(each) for name, each in functions().items()},
        "initial values": {str(case): initial_values(case) for case in CASES},
        "sharing": {str(case): case.claims.sharing for case in CASES},
    }
    blocks = []
    for part, values in parts.items():
        lines = [f"{json.dumps(name)}: {json.dumps(values[name])}" for name in sorted(values)]
        blocks.append(f"{json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n}")
    RECORDED.write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    record()
