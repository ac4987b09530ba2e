"""Names of papers and models that are no names here lead to commands that work."""

from __future__ import annotations

import re

import pytest

from posenc.lookup import scheme_text
from posenc.lookup.name_suggestion import ENCODING, OTHER_NAMES, plain_name, unknown
from posenc.models.language import LanguageConfig
from posenc.workbench.studies.language.variants import variant

pytestmark = pytest.mark.bare

CONFIG = LanguageConfig(vocabulary=11, dim=16, depth=2, heads=2, key_heads=2, hidden=16)


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_the_command_for_a_name_of_papers_names_what_is_here(name: str) -> None:
    said = OTHER_NAMES[name]
    shown = re.findall(r'posenc show (?:"([^"]+)"|(\w+))', said)
    recipes = re.findall(r'--schemes "([^"]+)"', said)
    assert shown or recipes
    for quoted, word in shown:
        assert scheme_text.parse(quoted or word).scheme in scheme_text.catalogue()
    for label in recipes:
        assert len(variant(label, CONFIG, longest=64, window=16).schemes) > 1


def test_such_a_name_is_none_of_the_catalogue() -> None:
    assert not OTHER_NAMES.keys() & set(map(plain_name, scheme_text.catalogue()))


def test_a_file_of_that_name_comes_first(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert unknown(ENCODING, "irope", ["RoPE"]).startswith("there is no encoding 'irope'. Here it is a recipe by layer")
    (tmp_path / "irope.py").write_text("")
    assert "Did you mean the file irope.py?" in unknown(ENCODING, "irope", ["RoPE"])
