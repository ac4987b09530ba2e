"""Pages of the site before Sphinx reads them: links, ranks, schemes, reference."""

import json
import re
from pathlib import Path

import pytest
import yaml
from documents import ROOT, with_links
from evidence_pages import leaderboard, ranked, rankings
from figure_colors import color_sheet
from rank_plots import average_ranks, rank_plot
from reference_pages import file_formats, public_names
from scheme_facts import comparisons, cost_table, families, family
from scheme_pages import scheme_page
from studies_of_schemes import VARIANTS, studies_of_schemes

from posenc import frequencies
from posenc.cli.schemes import claims_of_all
from posenc.schemes import catalogue
from posenc.schemes.grid_pe import GridPE
from posenc.workbench.storage.packs import PackedRun
from posenc.workbench.storage.stored import Record

pytestmark = pytest.mark.bare
DOCS = ROOT / "docs"


@pytest.mark.parametrize(
    ("link", "folder", "target"),
    [
        ("graphs.md", DOCS, "../documents/graphs.md"),
        ("graphs.md#views", DOCS, "../documents/graphs.md#views"),
        ("schemes.md", DOCS, "../schemes/index.md"),
        ("schemes.md#RoPE", DOCS, "../schemes/RoPE.md"),
        ("../README.md", DOCS, "../index.md"),
        ("../CONTRIBUTING.md", DOCS, "../documents/contributing.md"),
        ("../results/README.md", DOCS, "../documents/results.md"),
        ("../results/globe-quick.html", DOCS, "results:globe-quick.html"),
        ("docs/time.md", ROOT, "../documents/time.md"),
        ("https://pytorch.org", DOCS, "https://pytorch.org"),
        ("#below", DOCS, "#below"),
    ],
)
def test_a_link_names_the_page_of_the_site(link: str, folder: Path, target: str) -> None:
    assert with_links(f"See [this]({link}).", folder) == f"See [this]({target})."


def test_a_link_without_a_page_is_refused_and_code_stays() -> None:
    with pytest.raises(ValueError, match=r"no page for the link \.\./src/posenc/scheme\.py"):
        with_links("[this](../src/posenc/scheme.py)", DOCS)
    code = "```python\n# a comment\nq = f[0](x.md)\n```\n"
    assert with_links(code, DOCS) == code


def test_a_document_of_several_titles_is_one_entry_of_the_contents() -> None:
    text = "# First\n\n## Part\n\n```sh\n# comment\n```\n\n# Second\n\n## Part\n"
    assert with_links(text, DOCS) == "# First\n\n## Part\n\n```sh\n# comment\n```\n\n## Second\n\n### Part\n"
    assert with_links("# Only\n\n## Part\n", DOCS) == "# Only\n\n## Part\n"


def test_every_document_has_an_entry_in_the_contents() -> None:
    contents = (ROOT / "docs" / "site" / "index.md").read_text()
    names = {path.stem for path in DOCS.glob("*.md")} - {"schemes"}
    assert {name for name in names if not re.search(rf"documents/{name}>?$", contents, re.M)} == set()


def scores(**means: float) -> dict[str, dict[int, float]]:
    """Five seeds around each mean, with a part that all variants share."""
    shared = (0.03, -0.02, 0.01, 0.0, -0.02)
    own = (0.0, 0.001, -0.001, 0.0005, -0.0005)
    return {
        name: {seed: mean + shared[seed] + own[(seed + number) % 5] for seed in range(5)}
        for number, (name, mean) in enumerate(means.items())
    }


def test_ranks_are_those_that_paired_intervals_allow() -> None:
    values = scores(best=0.9, near=0.8, nearer=0.8001, last=0.5)
    labels = {"study": "s", "preset": "quick", "condition": "main"}
    found = ranked(values, metric="accuracy", **labels)
    assert list(found.scores) == ["best", "nearer", "near", "last"]
    assert found.ranks == {"best": (1, 1), "nearer": (2, 3), "near": (2, 3), "last": (4, 4)}
    lower = ranked(values, metric="loss", **labels)
    assert lower.ranks["last"] == (1, 1)
    assert lower.ranks["best"] == (4, 4)
    few = ranked(values | {"one seed": {0: 1.0}}, metric="accuracy", **labels)
    assert next(iter(few.scores)) == "one seed"
    assert "one seed" not in few.ranks
    assert few.ranks["best"] == (1, 1)


def test_average_ranks_are_those_of_complete_blocks() -> None:
    values = {name: dict.fromkeys(range(14), score) for name, score in (("a", 1.0), ("b", 2.0), ("c", 3.0))}
    values["d"] = {seed: 4.0 if seed else 0.0 for seed in range(14)}
    found = average_ranks(values | {"short": {0: 9.0}}, lower_is_better=False)
    assert found is not None
    assert (found.blocks, list(found.left_out)) == (14, ["short"])
    assert found.difference == pytest.approx(1.25, abs=0.005)  # Demsar 2006, section 3.2.2: four variants, 14 blocks
    assert list(found.ranks) == ["d", "c", "b", "a"]
    assert found.ranks["d"] == pytest.approx((13 * 1 + 4) / 14)
    lower = average_ranks(values, lower_is_better=True)
    assert lower is not None
    assert next(iter(lower.ranks)) == "a"
    assert average_ranks({name: {0: 1.0, 1: 2.0} for name in "abc"}, lower_is_better=True) is None
    plot = rank_plot(found, "a study")
    assert plot.count("<circle") == 4
    assert "Left out, because seeds are missing: short." in plot
    assert "14 complete blocks, 4 variants" in plot


def test_theleaderboard_says_what_was_not_run_and_never_mixes_scales() -> None:
    found = list(rankings())
    assert sum(each.average is not None for each in found) > 40
    for each in found:
        if each.average:
            assert set(each.average.ranks) | set(each.average.left_out) == set(each.scores)
    text = leaderboard(found)
    parts = dict(zip(re.findall(r"^## (.+)$", text, re.M), re.split(r"^## .+$", text, flags=re.M)[1:], strict=True))
    assert all("this scale" in part for part in parts.values())
    assert "`gridpe-8-heads`" in parts["gridpe, quick"].partition("Not run at this scale")[2]
    assert text.count('<details class="ranks">') == sum(each.average is not None for each in found)


def test_every_scheme_has_a_family_and_its_cost() -> None:
    assert family(()) == "no encoding"
    assert family(("k", "q")) == "transform of queries and keys"
    assert family(("bias", "mask", "value_bias")) == "bias"
    assert family(("embed", "k", "q")) == "several sites"
    assert "| time of a training step, 1,024 tokens | 1.08 |" in cost_table("ALiBi")
    assert all("ratio" in cost_table(name) for name in catalogue())
    listed = families(claims_of_all())
    assert all(f"[{name}]({name}.md)" in listed for name in catalogue())


def test_a_page_names_the_implementations_that_a_scheme_was_compared_with() -> None:
    stored = json.loads((ROOT / "results" / "parity.json").read_text(encoding="utf-8"))
    version = stored["versions"]["transformers"]
    assert f"* Compared with transformers {version} (Swin): largest difference 0 in float32." in comparisons("SwinBias")
    assert "released code, transcribed in a test (chuanyang-Zheng/DAPE)" in comparisons("DAPE")
    assert "ROPE_INIT_FUNCTIONS" in comparisons("yarn")
    assert comparisons("BiPE") == ""
    assert "Compared with its scalar definition alone" in scheme_page("NoPE", catalogue()["NoPE"], [])


def test_every_table_is_of_one_file_and_condition_and_names_its_page() -> None:
    found = list(rankings())
    assert len({(each.study, each.preset, each.condition) for each in found}) == len(found) > 20
    for each in found:
        assert (ROOT / "results" / each.page).exists()
        assert all(1 <= low <= high <= len(each.ranks) for low, high in each.ranks.values())


def test_a_scheme_page_has_its_parts() -> None:
    met = ["* [points, quick](results:points-quick.html), by accuracy: `gridpe` (rank 1 to 4 of 12)"]
    text = scheme_page("GridPE", GridPE, met)
    for part in ("## Formula", "omega_{s,i} = (2 pi / lambda_s) Q u_i", "| Axes of a position | ",
                 "## Cost", "from posenc import GridPE",
                 "<svg", '"../explorer/index.html#call=GridPE"',
                 "autoclass:: posenc.schemes.grid_pe.GridPE", met[0], "```bibtex\n@"):  # fmt: skip
        assert part in text


def test_schemes_name_the_studies_that_trained_them() -> None:
    found = studies_of_schemes(rankings())
    assert any("language" in line and "`alibi`" in line for line in found["ALiBi"])
    assert not any("`alibi`" in line for line in found["RoPE"])


def test_variants_of_theleaderboard_are_known() -> None:
    known = json.loads(VARIANTS.read_text())
    unknown = {(each.study, name) for each in rankings() for name in each.scores if name not in known[each.study]}
    assert unknown == set()


def test_public_names_are_those_that_a_module_defines() -> None:
    names = public_names(frequencies)
    assert "from_span" in names
    assert "yarn" not in names  # it has a paper, so it stands on a page with its citation
    assert "Tensor" not in names
    assert not [name for name in names if name.startswith("_")]


def test_file_formats_are_those_of_the_modules_of_the_store() -> None:
    text = file_formats()
    assert "```text\nformat.json " in text
    assert "units/ID/metrics.jsonl          one row per metric" in text
    assert "STUDY-PRESET.pack" in text
    assert "### A line of a pack\n\n| field | content |\n|---|---|\n| `spec` | Specification of the run. |" in text
    assert all(f"| `{name}` |" in text for name in (*Record.__struct_fields__, *PackedRun.__struct_fields__))
    assert text.count("```") % 2 == 0
    assert "``" not in text.replace("```", "")


def test_the_workflow_runs_targets_of_the_makefile() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text())
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    asked = [each["target"] for each in workflow["jobs"]["make"]["strategy"]["matrix"]["include"]]
    assert asked == ["test", "docs", "dist"]
    assert set(asked) <= set(targets)
    assert all(
        "uses" in step or step["run"] == "make ${{ matrix.target }}" for step in workflow["jobs"]["make"]["steps"]
    )


QUOTED = re.compile(r"[−-]?\d+\.\d+ \[[^\]]+\]|\b\d\.\d{3}\b")
"""A value with its interval, or one of three decimals."""


def test_every_number_of_the_explanations_is_that_of_a_stored_result() -> None:
    known = (DOCS / "claims.md").read_text() + "".join(
        re.sub(r"<[^>]+>", "", path.read_text()) for path in (ROOT / "results").glob("*.html")
    )
    known = " ".join(known.split())
    for name in ("choosing", "claims-explained"):
        found = QUOTED.findall(" ".join((DOCS / f"{name}.md").read_text().split()))
        assert len(found) > 8
        assert [each for each in found if each not in known] == []


def test_colors_are_those_of_pages_of_results() -> None:
    sheet = color_sheet()
    assert sheet.count("--foreground:") == 3
    assert "body[data-theme=dark]" in sheet


def test_the_tutorial_of_a_cluster_is_the_record() -> None:
    tutorial = (DOCS / "site" / "tutorials" / "13_cluster.py").read_text()
    recorded = (DOCS / "cluster-run.md").read_text().splitlines()
    lines = re.findall(r"^#   (.+)$", tutorial, re.M)
    assert len(lines) > 20
    assert [line for line in lines if line not in recorded] == []
    measured = json.loads((ROOT / "results" / "engine-overhead-cpu.json").read_text())
    rows = [row for each in measured.values() if isinstance(each, list) for row in each]
    times = {(row["start_seconds"], row["seconds_per_run"]) for row in rows}
    drawn = {(float(a), float(b)) for a, b in re.findall(r"\(([0-9.]+), ([0-9.]+)\),\n", tutorial)}
    assert len(drawn) == 5
    assert drawn <= times
