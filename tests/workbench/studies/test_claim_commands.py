"""Commands of docs/claims.md: each plans the stored runs of its claim, with their preset, variants and seeds."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path
from typing import Any

import pytest

from posenc.cli import COMMANDS
from posenc.cli.grammar import command_of
from posenc.cli.parser import parse
from posenc.workbench.storage.packs import merge
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request, find
from posenc.workbench.studies.shared import planning
from posenc.workbench.studies.shared.claim_commands import cells_of_claim, claim_commands
from posenc.workbench.studies.shared.study import Study

pytestmark = pytest.mark.bare

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")


def requested(command: str) -> tuple[Study, Request]:
    """Study and request of a command line, as the command line reads them."""
    _, _, *words = shlex.split(command)
    values = parse(
        command_of("run", COMMANDS["run"]), [word for word in words if word not in ("--data", "DIR", "--yes")]
    )
    names = ("preset", "panels", "schemes", "seeds")
    return find(values["study"]), Request(**{name: values[name] for name in names})


def planned_seeds(command: str, condition: str, variant: str) -> set[int]:
    """Seeds with which a command trains a variant in a condition; conditions that depend on data are not compared."""
    study, request = requested(command)
    preset = study.presets[request.preset]
    needed = planning.needed(study, request)
    shown = [study.panels[name].shows_condition for name in planning.panels_of(study, request)]
    by_data = any(shows is not None and shows(condition) for shows in shown)
    variants = [each for some in needed.values() for each in some] if by_data else needed.get(condition, [])
    named = {*(request.schemes or ())} & {variant, variant.partition("@")[0]} if by_data else set()
    return {*(request.seeds or preset.seeds)} if variant in variants or named else set()


def documented(name: str, preset: str) -> list[str]:
    """Commands of a claim at a preset in the document."""
    section = re.search(rf"^## {re.escape(name)}$(.*?)^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None, name
    by_preset = dict(re.findall(r"# (\w+)\n((?:posenc .*\n)+)", section[2]))
    return by_preset.get(preset, "").splitlines()


def compare(study: str, preset: str, rows: list[Any]) -> int:
    """Assert that the documented commands plan exactly the seeds of every variant that decides a claim."""
    compared = 0
    for claim in find(study).claims:
        commands = documented(claim.name, preset)
        for (condition, variant), seeds in cells_of_claim(claim, rows).items():
            assert all(requested(each)[1].preset == preset for each in commands), (claim.name, commands)
            planned = set[int]().union(*(planned_seeds(each, condition, variant) for each in commands))
            assert planned == seeds, (claim.name, condition, variant, commands)
            compared += 1
    return compared


@pytest.mark.full
@pytest.mark.parametrize(
    ("study", "preset"),
    [("language", "quick"), ("language", "standard"), ("gridpe", "quick"), ("gridpe", "standard"),
     ("sc-pe", "standard"), ("scene", "standard"),
     ("permuted", "quick"), ("points", "standard"), ("series", "quick"), ("graphs", "quick"), ("shape-fit", "standard"),
     ("image-fit", "standard")],
)  # fmt: skip
def test_the_commands_of_the_document_plan_the_stored_runs(study: str, preset: str) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "claims.py"))
    assert compare(study, preset, tool["rows_of_study"](find(study))[preset]) > 3


def test_commands_of_a_pack_plan_runs_of_the_stored_identities(tmp_path: Path) -> None:
    store = Store(tmp_path / "merged")
    merge(store, ROOT / "results" / "nmar-standard.pack")
    rows = store.results()
    assert compare("nmar", "standard", rows) > 10
    claim = find("nmar").claims[0]
    (command,) = documented(claim.name, "standard")
    study, request = requested(command)
    planned = {spec.identity for spec in study.plan(request, Store(tmp_path / "new"))}
    used = cells_of_claim(claim, rows)
    stored = {spec.identity for spec in store.specs() if (spec.condition, spec.variant) in used}
    assert stored
    assert stored <= planned


def test_a_command_names_the_preset_the_seeds_and_the_data() -> None:
    study = find("language")
    claim = next(each for each in study.claims if each.name.startswith("ALiBi"))
    seeds = {"alibi": 3, "sinusoid": 3, "bigram": 5, "rope": 5}
    rows = [
        {"setting": "main", "scheme": label, "seed": seed, "metric": metric, "value": 2.0 + 0.1 * seed}
        for label, count in seeds.items()
        for metric in ("loss", "loss_at_x1", "loss_at_x8")
        for seed in range(count)
    ]
    assert cells_of_claim(claim, rows) == {("main", label): frozenset(range(count)) for label, count in seeds.items()}
    assert claim_commands(study, "standard", claim, rows, real_data=True) == (
        "posenc run language --preset standard --data DIR --panels extrapolation --schemes alibi sinusoid "
        "--seeds 0 1 2 --yes",
        "posenc run language --preset standard --data DIR --panels extrapolation --schemes bigram rope --yes",
    )
    assert claim_commands(study, "standard", claim, [], real_data=True) == ()


def test_a_condition_with_a_data_set_of_its_own_is_named() -> None:
    """Without it the command would train the models of Fashion-MNIST too."""
    study, labels = find("gridpe"), ("grid-deep", "grid-rotate", "grid-merge", "grid-complex", "gridpe")
    claim = next(each for each in study.claims if each.name == "deep is the best of the four on photographs")
    rows = [
        {
            "setting": "photographs",
            "scheme": label,
            "seed": seed,
            "metric": "accuracy",
            "value": 0.5 + 0.01 * place * seed,
        }
        for place, label in enumerate(labels, 1)
        for seed in range(3)
    ]
    assert claim_commands(study, "standard", claim, rows, real_data=True) == (
        "posenc run gridpe --preset standard --data DIR --panels accuracy --conditions photographs --seeds 0 1 2 --yes",
    )
