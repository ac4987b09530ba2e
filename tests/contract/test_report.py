"""What ``check`` takes and what its report says."""

import subprocess
import sys

import pytest
import torch

import posenc
from posenc.contract import Report, Result, check, checks
from posenc.contract.case import Case, ContractError, largest_difference, require
from posenc.positions import Positions
from posenc.scheme import Claims, Scheme
from posenc.schemes.learned import Learned
from posenc.schemes.nope import NoPE
from posenc.schemes.rope import RoPE

pytestmark = pytest.mark.bare


class Unexampled(Scheme):
    def prepare(self, pos: Positions) -> None:
        self._take(pos)


class Lengthy(Scheme):
    examples = ({},)

    def __init__(self) -> None:
        super().__init__()
        self.claims = NoPE().claims

    def prepare(self, pos: Positions) -> None:
        raise RuntimeError("a long story " + 100 * "and then ")


def test_a_class_is_checked_on_every_example():
    report = check(NoPE)
    assert report.ok
    assert {result.check.partition(".")[0] for result in report.results} == {
        "claims", "definition", "graphs", "options", "placement", "precision", "state", "units",
    }  # fmt: skip
    assert str(report) == f"{len(checks())} of {len(checks())} checks passed on 1 example"


def test_an_instance_is_checked_as_it_is():
    scheme = RoPE(12)
    assert check(scheme).ok
    assert {result.case for result in check(scheme).results} == {"RoPE(..)"}
    scheme.pairing = "half"  # another scheme, still a whole one
    assert check(scheme).ok
    scheme.theta = (1.0, 0.5, 0.1)  # too few for 12 channels
    report = check(scheme)
    assert not report.ok
    assert "definition.attention_equals_its_definition" in {result.check for result in report.failures}


@pytest.mark.parametrize(("text", "case"), [("no-pe", "NoPE()"), ("RoPE(head_dim=4)", "RoPE(..)")])
def test_a_scheme_may_be_named_in_text(text, case):
    report = check(text, family="options")
    assert report.ok
    assert {result.case for result in report.results} == {case}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("Ropes", r"there is no encoding 'Ropes'. Did you mean"),
        ("RoPE()", r"RoPE needs head_dim=..; write RoPE\(head_dim=value\)"),
        (int, r"check takes a scheme: an instance as RoPE\(64\), its class, or either as text; got int. Write check"),
        (7, r"got int\. Write check\(RoPE\)"),
        (None, r"got NoneType"),
    ],
)
def test_what_is_no_scheme_is_refused(given, sentence):
    with pytest.raises((ValueError, TypeError), match=rf"({sentence})|Type-check error"):
        check(given)


class KnownToFail(NoPE):
    """As code of others that it would reproduce: it says which checks it fails."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.claims = Claims(**{**vars(self.claims), "isometric": False})
        self.faults = {fault: "it was written so"}


def test_a_known_fault_must_fail_and_nothing_else_may():
    report = check(KnownToFail("claims.isometry_is_as_claimed"))
    assert report.ok, report
    known = "claims.isometry_is_as_claimed: KnownToFail(..) fails, as its `faults` state: it was written so."
    assert known in str(report)
    assert [result.check for result in report.results if result.known] == ["claims.isometry_is_as_claimed"]
    report = check(KnownToFail("claims.learning_is_as_claimed"))
    troubles = {result.check: result.trouble for result in report.failures}
    assert set(troubles) == {"claims.isometry_is_as_claimed", "claims.learning_is_as_claimed"}
    assert troubles["claims.learning_is_as_claimed"] == "passes, but `faults` lists it as failing: it was written so."


def test_checking_changes_neither_the_instance_nor_the_random_state():
    scheme = Learned(12, 24)
    before, state = scheme.table.detach().clone(), torch.get_rng_state()
    assert check(scheme).ok
    assert torch.equal(before, scheme.table)
    assert torch.equal(state, torch.get_rng_state())


def test_a_class_without_examples_is_refused():
    with pytest.raises(ValueError, match=r"Unexampled declares no `examples`. Write a tuple of constructor arguments"):
        check(Unexampled)
    assert not check(Unexampled()).ok  # it claims nothing either


def test_an_error_of_the_schemes_own_is_a_failure_and_is_cut_short():
    report = check(Lengthy)
    assert not report.ok
    troubles = {result.check: result.trouble for result in report.failures}
    assert "RuntimeError: a long story" in troubles["claims.range_is_as_claimed"]
    assert all(len(trouble) < 340 for trouble in troubles.values())


def test_a_part_that_is_not_there_yet_comes_first_and_says_what_to_write():
    class Bare(Scheme):
        examples = ({},)

        def prepare(self, pos: Positions) -> Positions:
            return self._take(pos)

    first = check(Bare).next
    assert first is not None
    assert first.unwritten
    assert first.trouble.startswith("Bare claims nothing: write self.claims = Claims(..) in its constructor")

    class Halfway(Bare):
        def __init__(self) -> None:
            super().__init__()
            self.claims = Claims(**{**vars(NoPE().claims), "sites": frozenset({"bias"})})

        def bias(self, q, k, kept, pair, attn_mask) -> torch.Tensor:
            return torch.zeros(())

    first = check(Halfway).next
    assert first is not None
    assert first.unwritten
    assert (
        first.trouble == "Halfway claims the site bias and has no formula beside its code: write define_bias(self, at)."
    )


def test_what_torch_lacks_is_not_taken_for_a_part_to_write():
    class Exotic(RoPE):
        examples = ({"head_dim": 12},)

        def prepare(self, pos: Positions):
            torch.ones(2, device="meta").to("cpu")
            return super().prepare(pos)

    report = check(Exotic)
    assert "NotImplementedError: Cannot copy out of meta tensor" in str(report)
    assert not any(result.unwritten for result in report.failures)


def test_a_formula_that_differs_is_mended_before_what_follows_from_it():
    report = Report((Result("claims.one", "X()", "a"), Result("definition.two", "X()", "b"), Result("state.x", "X()")))
    assert report.next == report.results[1]
    assert Report((Result("claims.one", "X()"),)).next is None


def test_a_report_names_check_case_and_trouble():
    report = Report((Result("a.one", "X()"), Result("a.two", "X()", "is broken."), Result("a.one", "X(b=1)")))
    assert not report.ok
    assert [result.check for result in report.failures] == ["a.two"]
    assert str(report) == "2 of 3 checks passed on 2 examples\n  a.two: X(): is broken."


def test_a_trouble_is_a_sentence_with_what_was_claimed_and_measured():
    class Proud(NoPE):
        def __init__(self) -> None:
            super().__init__()
            self.claims = Claims(**{**vars(self.claims), "translation": "none"})

    trouble = next(r.trouble for r in check(Proud).failures if r.check == "claims.translation_is_as_claimed")
    assert trouble.startswith(
        "claims translation='none', but moving every position by 5 changed what it does by 0.0e+00"
    )
    assert "measured 'exact'" in trouble


def test_require_and_gap():
    require(True, "never said")
    with pytest.raises(ContractError, match="said"):
        require(False, lambda: "said")
    one = torch.ones(2)
    assert largest_difference(one, one) == 0
    assert largest_difference(one, torch.ones(3)) == largest_difference(one * torch.nan, one) == float("inf")
    assert largest_difference(11 * one, 10 * one) == pytest.approx(0.1)
    assert largest_difference(0.2 * one, 0.1 * one) == pytest.approx(0.1)
    assert largest_difference(one[:0], one[:0]) == 0


def test_case_positions_lie_in_the_range_and_differ_on_every_axis():
    for kind, options in ((Learned, {"dim": 12, "max_len": 24}), (NoPE, {})):
        case = Case(kind, options)
        low, high = case.claims.range or (-8, 40)
        for pos in (case.positions(), case.positions(9), case.positions(batch=3), case.positions(seed=1)):
            assert low <= float(pos.coords.min())
            assert float(pos.coords.max()) + 5 <= high
            assert all(len(set(row.tolist())) == pos.count for row in pos.coords.reshape(-1, pos.count))
    assert Case(NoPE, {}).positions(axes=3).axes == 3
    with pytest.raises(ContractError, match=r"claims a range of 0 to 1: too short for positions that can be moved"):
        Case(Learned, {"dim": 12, "max_len": 2}).positions()


@pytest.mark.full
def test_check_is_public_and_loaded_when_asked_for():
    code = "import sys, posenc; early = 'posenc.contract' in sys.modules; print(early, posenc.check.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "posenc.contract"]
    assert posenc.check is check
