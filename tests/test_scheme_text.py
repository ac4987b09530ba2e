"""Schemes named in text: parsed, found, built, one a layer or one for all."""

import pytest

from posenc.scheme_text import Specification, build, find, parse, per_layer, unknown
from posenc.schemes import catalogue
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RoPE


@pytest.mark.parametrize(
    ("text", "scheme", "options"),
    [
        ("RoPE", "RoPE", {}),
        (" rope ", "RoPE", {}),
        ("causal-nope", "CausalNoPE", {}),
        ("CAUSAL_NOPE", "CausalNoPE", {}),
        ("RoPE()", "RoPE", {}),
        ("RoPE(pairing='half')", "RoPE", {"pairing": "half"}),
        ("learned(sigma=0.2, distribution='uniform')", "Learned", {"sigma": 0.2, "distribution": "uniform"}),
        ("Shaw(values=False, max_distance=-3)", "Shaw", {"values": False, "max_distance": -3}),
    ],
)
def test_parsing(text, scheme, options):
    assert parse(text) == Specification(scheme, options)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rop", r"there is no encoding 'rop'\. Did you mean RoPE"),
        ("sinusiod", r"there is no encoding 'sinusiod'\. Did you mean Sinusoid"),
        ("xyzzy", r"there is no encoding 'xyzzy'\. posenc list shows all"),
        ("", r"there is no encoding ''\. posenc list shows all"),
        ("RoPE(64)", r"options of 'RoPE\(64\)' are named, as RoPE\(option=value\)"),
        ("RoPE(pairing=half)", r"options of 'RoPE\(pairing=half\)' must be plain values, as RoPE\(option=0\.5"),
        ("RoPE(head_dim=__import__('os'))", r"must be plain values"),
        ("RoPE(**{'head_dim': 4})", r"options of .* are named"),
        ("RoPE(pairing='half'", r"RoPE\(pairing='half'. cannot be read\. Write Name or Name\(option=value\)"),
        ("RoPE + NoPE", r"there is no encoding 'RoPE \+ NoPE'"),
        ("f(1)(2)", r"'f\(1\)\(2\)' cannot be read"),
    ],
)
def test_what_cannot_be_parsed(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse(text)


def test_every_scheme_is_found_by_its_name_and_no_two_names_are_confused():
    assert [find(name.lower()) for name in catalogue()] == list(catalogue().values())
    assert (
        unknown("study", "latin", ["latin-squares", "other"])
        == "there is no study 'latin'. Did you mean latin-squares?"
    )


def test_building_takes_options_first_and_what_the_model_knows_then():
    known = {"head_dim": 8, "dim": 32, "max_len": 16, "heads": 4}
    rope = build(parse("RoPE(pairing='half')"), known)
    assert isinstance(rope, RoPE)
    assert (rope.head_dim, rope.pairing) == (8, "half")
    assert build(parse("RoPE(head_dim=4, of=8)"), known).head_width == 8
    learned = build(parse("Learned(max_len=5)"), known)
    assert learned.table.shape == (5, 32)


@pytest.mark.parametrize(
    ("text", "known", "sentence"),
    [
        ("RoPE(paring='half')", {"head_dim": 8}, r"RoPE: there is no option 'paring'\. Did you mean pairing\?"),
        ("NoPE(sigma=1)", {}, r"NoPE: there is no option 'sigma'\. It takes none\."),
        (
            "RoPE(zzz=1)",
            {"head_dim": 8},
            r"there is no option 'zzz'\. It takes head_dim, of, base, frequencies, pairing\.",
        ),
        ("Sum", {}, r"Sum is made of other schemes, which text cannot hold\. Build it in Python"),
        ("Scaled(factor=2)", {}, r"Scaled is made of other schemes"),
        ("Learned", {"dim": 3}, r"Learned needs max_len=\.\.; write Learned\(max_len=value\)"),
        ("Learned(sigma=-1)", {"dim": 3, "max_len": 4}, r"sigma is the standard deviation .* got -1"),
    ],
)
def test_what_cannot_be_built(text, known, sentence):
    with pytest.raises(ValueError, match=sentence):
        build(parse(text), known)


@pytest.mark.compile  # the shape hook would refuse the word before the sentence does
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "Learned(sigma='big')",
            r"Learned\(sigma='big'\) cannot be built: sigma is float, not 'big'\. Give each option",
        ),
        ("Learned(max_len=4.0)", r"cannot be built: max_len is int, not 4\.0\. Give each option"),
        ("ALiBi(heads=2, slopes=3)", r"cannot be built: 'int' object is not iterable\. Give each option"),
        ("RoPE(pairing=2)", r"RoPE pairs channels .* got 2"),
    ],
)
def test_options_of_a_wrong_type(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        build(parse(text), {"dim": 3, "max_len": 4, "head_dim": 4})


def test_a_layer_has_its_own_scheme_where_the_scheme_claims_so():
    known = {"dim": 3, "max_len": 4, "head_dim": 4}
    own = per_layer(Specification("Learned"), known)
    tables = [own(layer) for layer in range(3)]
    assert len({id(table) for table in tables}) == 3
    assert all(isinstance(table, Learned) for table in tables)
    gates = per_layer(Specification("FoX"), {"dim": 3, "heads": 2})  # one a layer, and its heads differ too
    made = [gates(layer) for layer in range(3)]  # held, or the next one may be made where this one was
    assert len({id(gate) for gate in made}) == 3
    shared = per_layer(Specification("RoPE"), known)
    assert len({id(shared(layer)) for layer in range(3)}) == 1
