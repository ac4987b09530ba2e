"""Written encodings take the named variant's model settings; equal ones are one variant; differences are printed."""

from pathlib import Path

import pytest

from posenc.lookup.scheme_text import Specification, parse
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request, find
from posenc.workbench.studies.gridpe import variants as gridpe
from posenc.workbench.studies.latin_squares import variants as latin_squares
from posenc.workbench.studies.points import variants as points
from posenc.workbench.studies.shared.written_schemes import is_same, named_like

pytestmark = pytest.mark.bare

STUDY = find("latin-squares")
SMALL = {"epochs": 1, "train": 100, "train_size": 100, "iid": 20, "ood": 10}


def request(*schemes: str) -> Request:
    return Request(preset="quick", schemes=schemes, seeds=(0,), panels=("accuracy",), changes=SMALL)


def test_a_written_scheme_takes_the_settings_of_the_variant_of_its_scheme() -> None:
    rope = latin_squares.variant("rope")
    written = latin_squares.variant("RoPE(pairing='half')")
    assert (written.model, written.training, written.view) == (rope.model, rope.training, rope.view)
    assert written.options == {"pairing": "half"}
    assert latin_squares.variant("Sinusoid(axes=2, base=50)").view == "grid"
    assert latin_squares.variant("Sinusoid(base=50)").view == "index"
    assert latin_squares.variant("Shaw(values=False)") == latin_squares.Variant(
        scheme="Shaw", options={"values": False}
    )


@pytest.mark.parametrize("text", ["RoPE()", "RoPE(base=10000.0)", "rope", "RoPE"])
def test_a_default_that_is_written_out_makes_no_other_variant(text: str) -> None:
    assert latin_squares.variant(text) == latin_squares.VARIANTS["rope"]


def test_other_studies_share_their_settings_too() -> None:
    config = points.PointsConfig(channels=3, dim=48, depth=1, heads=1, hidden=32, classes=4)
    assert points.variant("LieRE(block=2, axes=3)", config)[0].view == points.variant("liere", config)[0].view
    assert points.variant("NoPE()", config)[0] == points.variant("nope", config)[0]
    assert gridpe.encoding("pvt", "PEG(kernel=5)").pooled
    assert gridpe.encoding("pvt", "Sinusoid(axes=2, base=50)").tables
    assert not gridpe.encoding("vit", "NoPE()").tables


def test_the_variant_with_most_of_the_written_options_is_chosen() -> None:
    named = {
        "one": Specification("Sinusoid"),
        "two": Specification("Sinusoid", {"axes": 2}),
        "rope": Specification("RoPE"),
    }
    assert named_like(parse("Sinusoid(axes=2, base=9)"), named) == "two"
    assert named_like(parse("Sinusoid(axes=3)"), named) == "one"
    assert named_like(parse("Shaw()"), named) is None
    assert is_same(parse("Sinusoid(axes=2)"), named["two"])
    assert not is_same(parse("Sinusoid(axes=2, base=9)"), named["two"])


@pytest.mark.parametrize(
    "schemes",
    [("rope", "RoPE()"), ("RoPE()", "rope"), ("rope", "RoPE", "RoPE(base=10000.0)"), ("RoPE(base=1e4)", "RoPE()")],
)
def test_equal_encodings_are_one_variant(schemes: tuple[str, ...], tmp_path: Path) -> None:
    specs = STUDY.plan(request(*schemes), Store(tmp_path))
    assert len(specs) == 1
    assert specs[0].variant == ("rope" if "rope" in schemes else "RoPE(base=1e4)")


def test_what_differs_from_the_named_variant_is_printed(tmp_path: Path) -> None:
    store, wanted = Store(tmp_path), request("rope", "RoPE(pairing='half')", "RoPE()", "Learned(sigma=3.0)", "ALiBi")
    lines = STUDY.announce(wanted, store, STUDY.plan(wanted, store))
    assert "RoPE(pairing='half') differs from rope in: pairing 'half', which is not stated there." in lines
    assert "RoPE() is the same model as rope." in lines
    assert any(line.startswith("Learned(sigma=3.0) differs from learned-") for line in lines)
    assert not any(line.startswith(("rope ", "ALiBi ")) for line in lines)
