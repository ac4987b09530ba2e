"""Schemes keep their contract where Triton computes: definitions, derivatives and 16-bit numbers."""

import pytest
from interpreted import interpreted

from posenc import HashGrid, MixedRoPE, XPos
from posenc.contract import checks, run
from posenc.contract.case import Case
from posenc.kernels.kernel_form import kernel_form

pytestmark = [pytest.mark.bare, interpreted]

FAMILIES = ("posenc.contract.definition", "posenc.contract.precision")


@pytest.mark.parametrize("scheme", [HashGrid, MixedRoPE, XPos])
def test_definitions_and_precision_hold_with_triton(scheme, monkeypatch):
    from posenc.kernels.triton_forms import grid, rotary

    launches, launch = [], rotary.launch

    def counted(*given):
        launches.append(given[0])
        launch(*given)

    monkeypatch.setattr(rotary, "launch", counted)
    monkeypatch.setattr(grid, "launch", counted)
    with kernel_form("triton"):
        chosen = [check for check in checks() if check.__module__ in FAMILIES]
        results = [run(check, Case(scheme, scheme.examples[0])) for check in chosen]
    assert [result.trouble for result in results] == [""] * len(results)
    assert len(launches) >= 10
