"""Schemes named in text: parsed, found, built, one a layer or one for all."""

import msgspec
import pytest
import torch

from posenc import frequencies
from posenc.lookup.scheme_text import Specification, build, call_text, find, parse, per_layer, specifications, unknown
from posenc.positions import grid, sequence
from posenc.schemes import catalogue
from posenc.schemes.learned import Learned
from posenc.schemes.rope import RoPE
from posenc.schemes.sinusoid import Sinusoid

pytestmark = pytest.mark.bare


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
        ("RoPE(64)", "RoPE", {"head_dim": 64}),
        ("RoPE(128, base=500000)", "RoPE", {"head_dim": 128, "base": 500000}),
        (
            "Sum([rope(16), ALiBi(4)])",
            "Sum",
            {
                "parts": [
                    {"scheme": "RoPE", "options": {"head_dim": 16}},
                    {"scheme": "ALiBi", "options": {"heads": 4}},
                ]
            },
        ),
        (
            "Scaled(Sinusoid(axes=2), 0.02)",
            "Scaled",
            {"scheme": {"scheme": "Sinusoid", "options": {"axes": 2}}, "factor": 0.02},
        ),
        (
            "RoPE(frequencies=yarn(factor=4, trained=64))",
            "RoPE",
            {"frequencies": {"schedule": "yarn", "options": {"factor": 4, "trained": 64}}},
        ),
    ],
)
def test_parsing(text, scheme, options):
    assert parse(text) == Specification(scheme, options)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rop", r"there is no encoding 'rop'\. Did you mean RoPE"),
        ("sinusiod", r"there is no encoding 'sinusiod'\. Did you mean Sinusoid"),
        ("xyzzy", r"there is no encoding 'xyzzy'\. The encodings are ALiBi, .*, XPos\."),
        ("", r"there is no encoding ''\. The encodings are ALiBi"),
        ("RoPE(64, 3)", r"RoPE takes at most 1 options without a name: head_dim\. 'RoPE\(64, 3\)' has 2"),
        ("NoPE(3)", r"NoPE takes named options only\. 'NoPE\(3\)' has 1"),
        ("RoPE(64, head_dim=3)", r"gives RoPE the option head_dim twice\. Give it once"),
        ("RoPE(pairing=half)", r"options of 'RoPE\(pairing=half\)' must be plain values or schemes, as Name\(opt"),
        ("RoPE(head_dim=__import__('os'))", r"there is no encoding '__import__'"),
        ("RoPE(head_dim=[__import__('os')])", r"there is no encoding '__import__'"),
        ("RoPE(head_dim=os.name)", r"must be plain values or schemes"),
        ("Sum(*[RoPE])", r"Sum takes at most 1 options without a name: parts"),
        ("Sum([RoPE, ALibi2])", r"must be plain values or schemes"),
        ("Sum([RoPE(), ALibi2()])", r"there is no encoding 'ALibi2'\. Did you mean ALiBi"),
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


@pytest.mark.parametrize(
    "text",
    [
        "Sum([RoPE(16), ALiBi(4)])",
        "Scaled(Sinusoid(axes=2), 0.02)",
        "Concat([Sinusoid(8), Scaled(Learned(8, 32), factor=0.5)])",
        "RoPE(16, frequencies=yarn(factor=4, trained=2048))",
    ],
)
def test_a_composed_scheme_is_json_that_builds_it_again(text):
    known = {"dim": 16, "head_dim": 16, "max_len": 32}
    parsed = parse(text)
    stored = msgspec.convert(msgspec.json.decode(msgspec.json.encode(parsed)), Specification)
    assert parse(call_text(stored)) == parsed
    pos = grid(4, 4) if "axes=2" in text else sequence(5)
    made = []
    for specification in (parsed, stored):
        torch.manual_seed(0)
        scheme = build(specification, known)
        made.append(scheme.embed(scheme.prepare(pos)) if "embed" in scheme.claims.sites else scheme.claims)
    assert str(made[0]) == str(made[1])


def test_a_composed_scheme_takes_the_sizes_of_the_model_for_its_parts_and_equals_the_one_in_python():
    scaled = build(parse("Scaled(Sinusoid(axes=2), 0.02)"), lambda kind: {"dim": 12} if kind is Sinusoid else {})
    rows = scaled.embed(scaled.prepare(grid(3, 3)))
    assert torch.equal(rows, 0.02 * Sinusoid(12, 2).embed(Sinusoid(12, 2).prepare(grid(3, 3))))
    total = build(parse("Sum([RoPE, ALiBi])"), {"head_dim": 16, "heads": 4})
    assert (total.head_width, total.claims.sites) == (16, {"q", "k", "bias"})
    stretched = build(parse("RoPE(64, frequencies=yarn(factor=4, trained=2048))"), {"head_dim": 32})
    assert stretched.theta == RoPE(64, frequencies=frequencies.yarn(32, factor=4, trained=2048)).theta
    assert [each.scheme for each in specifications(parse("Sum([Scaled(Sinusoid, 2), RoPE(8)])"))] == [
        "Sum", "Scaled", "Sinusoid", "RoPE",
    ]  # fmt: skip


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
        ("Sum", {}, r"Sum is made of other schemes\. Write them, as Sum\(\[Sinusoid, RoPE\]\)"),
        ("Scaled(factor=2)", {}, r"Scaled is made of other schemes\. Write them, as Scaled\(Sinusoid, 0\.02\)"),
        ("Sum([RoPE(zzz=1)])", {"head_dim": 8}, r"RoPE: there is no option 'zzz'"),
        pytest.param(
            "Sum([3])",
            {},
            r"Sum is made of schemes, as Sum\(\[a_scheme, another\]\); got a part of type int",
            marks=pytest.mark.compile,  # a wrong type, which the run-time check of types refuses first
        ),
        ("RoPE(8, frequencies=yarn(factr=4))", {}, r"yarn: there is no option 'factr'\. Did you mean factor"),
        ("RoPE(8, frequencies=yarn(factor=4))", {}, r"yarn needs trained=\.\.; write yarn\(trained=value\)"),
        ("Learned", {"dim": 3}, r"Learned needs max_len=\.\.; write Learned\(max_len=value\)"),
        ("Learned(sigma=-1)", {"dim": 3, "max_len": 4}, r"sigma is the standard deviation .* got -1"),
    ],
)
def test_what_cannot_be_built(text, known, sentence):
    with pytest.raises(ValueError, match=sentence):
        build(parse(text), known)


@pytest.mark.bare  # the shape hook would refuse the word before the sentence does
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "Learned(sigma='big')",
            r"Learned takes `sigma` as a number; got 'big'\.",
        ),
        ("Learned(max_len=4.0)", r"Learned takes `max_len` as a whole number; got 4\.0\."),
        ("ALiBi(heads=2, slopes=3)", r"ALiBi takes `slopes` as a list of numbers, a tensor or None; got 3"),
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


def test_periods_are_written_without_names():
    text = "Sinusoid(6, frequencies=periods('day', 'week', 30, unit='day'))"
    specification = parse(text)
    written = {"schedule": "periods", "options": {"names": ["day", "week", 30], "unit": "day"}}
    assert specification.options == {"dim": 6, "frequencies": written}
    scheme = build(specification, {})
    assert isinstance(scheme, Sinusoid)
    assert scheme.frequencies == tuple(frequencies.periods("day", "week", 30, unit="day").tolist())
    assert scheme.built_as == "Sinusoid(dim=6, frequencies=periods('day', 'week', 30, unit='day'))"
    assert parse(scheme.built_as) == specification
    once = build(parse("RoPE(4, frequencies=periods('day', harmonics=2))"), {})
    assert isinstance(once, RoPE)
    assert once.theta == tuple(frequencies.periods("day", harmonics=2).tolist())
    for wrong, words in (("periods('dya')", "got 'dya'"), ("periods()", "got 0 periods"), ("yarn(1, 2, 3, 4)", "yarn")):
        with pytest.raises(ValueError, match=words):
            build(parse(f"RoPE(4, frequencies={wrong})"), {})
