"""docs/models.md: every family of the table, measured on a tiny random model."""

import importlib.util
import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.oracles, pytest.mark.bare]
pytest.importorskip("transformers")

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("model_families", ROOT / "tools" / "model_families.py")
assert SPEC is not None
assert SPEC.loader is not None
tool = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tool)
PAGE = tool.PAGE.read_text(encoding="utf-8")
FIRST = {"Llama", "GPT2", "SiglipVision", "Pvt", "Swin", "DINOv3ViT"}
"""Families that the default tests measure."""


def listed(section):
    """Cells of the page by family, with the sentence of each refusal."""
    text = PAGE.split(f"## {section}")[1].split("\n## ")[0]
    notes = dict(re.findall(r"^(\d+)\. (.*(?:\n   .*)*)", text, re.MULTILINE))
    rows = {}
    for line in re.findall(r"^\| (?!family)(.*) \|$", text, re.MULTILINE):
        family, *cells = line.split(" | ")
        numbers = [re.fullmatch(r"refused \((\d+)\)", cell) for cell in cells]
        rows[family] = [" ".join(notes[n[1]].split()) if n else cell for n, cell in zip(numbers, cells, strict=True)]
    return rows


PARTS = {
    "Models that rotate": (tool.ROTARY, tool.rotary_row),
    "Models with a learned table": (tool.TABLES, tool.table_row),
    "Models with a table of images": (tool.IMAGES, tool.image_row),
    "Models with windows": (tool.WINDOWS, tool.window_row),
    "Models that rotate on a grid": (tool.GRIDS, tool.grid_row),
}

OF_TIMM = {
    "Vision transformers of timm": (tool.VISION, tool.vision_row),
    "Models of timm with windows": (tool.TIMM_WINDOWS, tool.timm_window_row),
    "Models of timm that rotate on a grid": (tool.TIMM_GRIDS, tool.timm_grid_row),
}
FIRST_OF_TIMM = {"vit_tiny_patch16_224", "swin_tiny_patch4_window7_224", "eva02_tiny_patch14_224"}


@pytest.mark.parametrize("section", [*PARTS, *OF_TIMM])
def test_the_page_lists_each_family(section):
    assert list(listed(section)) == list((PARTS | OF_TIMM)[section][0])


@pytest.mark.parametrize(
    ("section", "family"),
    [
        pytest.param(section, family, marks=() if family in FIRST else pytest.mark.full)
        for section, (families, _) in PARTS.items()
        for family in families
    ],
)
def test_a_family_is_as_the_page_says(section, family):
    compare(PARTS[section][1](family), section)


@pytest.mark.parametrize(
    ("section", "name"),
    [
        pytest.param(section, name, marks=() if name in FIRST_OF_TIMM else pytest.mark.full)
        for section, (names, _) in OF_TIMM.items()
        for name in names
    ],
)
def test_a_model_of_timm_is_as_the_page_says(timm, section, name):
    compare(OF_TIMM[section][1](name), section)


def compare(row, section):
    """Refusals are those of the page, and differences are small here and there."""
    for value, cell in zip(row.values, listed(section)[row.family], strict=True):
        if isinstance(value, str):
            assert value == cell
        else:
            assert value <= tool.ALLOWED
            assert float(cell) <= tool.ALLOWED
