"""The table of names on a page: what each variant stands for."""

from __future__ import annotations

import pytest

from posenc.workbench import find_study
from posenc.workbench.storage.own_scheme_records import OwnSchemeRecord
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import planning
from posenc.workbench.studies.shared.variant_names import names_table


def test_each_variant_is_explained_by_the_encodings_of_its_model() -> None:
    calls = {
        ("nope", "main"): ("NoPE()",),
        ("both", "main"): ("Sum([RoPE(16), ALiBi(heads=4)])",),
        ("both", "long"): ("RoPE(16)",),
        ("mine", "main"): ("MyBias_0123abcd(heads=2)",),
        ("bigram", "main"): (),
    }
    own = [OwnSchemeRecord(name="MyBias_0123abcd", source="my_bias.py:MyBias", digest="0123abcd")]
    table = names_table(calls, own)
    assert table is not None
    rows = dict(table.rows)
    assert rows["nope"] == "no encoding"
    assert "RoPE: rotary position embedding" in rows["both"]
    assert "ALiBi: attention with linear biases" in rows["both"]
    assert rows["mine"] == "your scheme, my_bias.py:MyBias"
    assert "bigram" not in rows
    assert names_table({("rope", "main"): ()}, own) is None


def test_the_study_explains_its_own_variants() -> None:
    calls = {
        ("index-rows", "main"): ("Sinusoid(dim=16)",),
        ("last", "main"): (),
        ("Sinusoid(8)", "main"): ("Sinusoid(8)",),
    }
    meanings = find_study("series").meanings
    table = names_table(calls, [], meanings)
    assert table is not None
    rows = dict(table.rows)
    assert rows["index-rows"].startswith("number of a reading in its window: sines and cosines")
    assert rows["last"].startswith("baseline")
    assert rows["Sinusoid(8)"].startswith("Sinusoid: ")


@pytest.mark.parametrize("name", ["graphs", "series"])
def test_every_named_variant_of_a_study_has_a_meaning_of_its_own(name: str) -> None:
    study = find_study(name)
    request = Request(preset="quick", panels=("all",))
    needed = {label for labels in planning.needed(study, request).values() for label in labels}
    assert needed <= study.meanings.keys()
    assert len({*study.meanings.values()}) == len(study.meanings)
