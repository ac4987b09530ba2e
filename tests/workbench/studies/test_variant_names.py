"""The table of names on a page: what each variant stands for."""

from __future__ import annotations

from posenc.workbench.storage.own_scheme_records import OwnSchemeRecord
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
