"""Maps of learned positions and trees: what is drawn is read back, modules are told apart, names are there."""

import re

import numpy as np
import pytest

from posenc.workbench.report.token_map import module_markers, token_dendrogram, token_maps

pytestmark = pytest.mark.bare

NAMES = [f"station {n}" for n in range(6)]
MODULES = ["a", "a", "a", "b", "b", "b"]
PLACES = np.array([[0, 0], [0, 1], [1, 0], [9, 9], [9, 8], [8, 9]], float)


def test_modules_differ_in_color_and_shape_and_stand_in_the_order_of_their_numbers():
    drawn = module_markers([f"module {n}" for n in (10, 2, 1)])
    assert list(drawn) == ["module 1", "module 2", "module 10"]
    assert len(set(module_markers([str(n) for n in range(24)]).values())) == 24
    first, second, *_ = module_markers(["x", "y"]).values()
    assert first[0] != second[0]
    assert first[1] != second[1]


def test_a_map_has_every_token_with_its_name_and_a_table_of_places():
    panel = token_maps([("learned", PLACES, "AUC 1.00")], NAMES, MODULES, title="Where they lie")
    (block,) = panel.blocks
    svg = block.figures[0].svg
    assert all(f">{name}<" in svg for name in NAMES)
    assert "var(--first)" in svg
    assert "var(--second)" in svg
    assert block.legend is not None
    assert "a, b" in block.legend.alt
    assert block.table.rows[3] == ("station 3", "b", "9.00, 9.00")
    bare = token_maps([("learned", PLACES, "")], NAMES, None, title="M").blocks[0]
    assert bare.legend is None
    assert "module" not in bare.key


def test_many_tokens_are_named_in_the_table_alone():
    places = np.random.default_rng(0).normal(size=(50, 3))
    block = token_maps([("x", places, "")], [f"c{n}" for n in range(50)], None, title="M").blocks[0]
    assert ">c7<" not in block.figures[0].svg
    assert "points are not labeled" in block.key
    assert len(block.table.rows) == 50


def test_places_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"one finite position per token, 6 here; x has the shape \(5, 2\)"):
        token_maps([("x", PLACES[:5], "")], NAMES, MODULES, title="M")
    with pytest.raises(ValueError, match="one finite position per token"):
        token_maps([("x", PLACES * np.nan, "")], NAMES, MODULES, title="M")
    assert token_maps([], NAMES, MODULES, title="M").blocks[0].paragraphs == ("No learned positions are stored.",)


def test_a_tree_keeps_modules_together_and_names_its_leaves():
    distances = np.linalg.norm(PLACES[:, None] - PLACES, axis=-1)
    shuffled = np.array([3, 0, 4, 1, 5, 2])
    block = token_dendrogram(
        distances[np.ix_(shuffled, shuffled)], [NAMES[n] for n in shuffled], [MODULES[n] for n in shuffled], title="T"
    ).blocks[0]
    order = [row[2] for row in block.table.rows]
    assert order in (["a"] * 3 + ["b"] * 3, ["b"] * 3 + ["a"] * 3)
    assert all(f">{name}<" in block.figures[0].svg for name in NAMES)
    assert len(re.findall(r"<use|<path", block.figures[0].svg)) >= 5 + 6  # joints and leaves


def test_a_large_tree_is_a_table():
    distances = np.random.default_rng(0).random((130, 130))
    panel = token_dendrogram(distances + distances.T, [str(n) for n in range(130)], None, title="T")
    assert "too large for a page" in panel.blocks[0].paragraphs[0]
    assert len(panel.blocks[1].rows) == 130
