"""Building of the index of schemes and studies from the source. This loads torch."""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.cli.index import PACKAGE, Index, source_digest
from posenc.cli.setting_checks import NUMBERS

if TYPE_CHECKING:
    from posenc.workbench.report.paper_parts import PaperPart
    from posenc.workbench.studies.shared.changes import Setting
    from posenc.workbench.studies.shared.study import Study

LABEL = re.compile(r"[\w@.,+ -]{2,40}")
"""A string constant that may be the label of a variant, or its beginning or end."""


def build() -> Index:
    """Build the index from the source.

    Returns:
        The index.
    """
    from posenc.cli.schemes import claims_of_all
    from posenc.lookup.cited_functions import functions
    from posenc.workbench import studies

    entries = {name: study_entry(study) for name, study in studies.studies().items()}
    plain = json.loads(json.dumps({"schemes": claims_of_all(), "functions": list(functions()), "studies": entries}))
    return Index(**plain)


def text(index: Index) -> str:
    """Return the text of ``index.json``: one line per scheme and study, so that changes of the source stay readable.

    Args:
        index: The index.

    Returns:
        JSON.
    """
    schemes = ",\n".join(json.dumps(row, ensure_ascii=False) for row in index.schemes)
    entries = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in index.studies.items()
    )
    functions = json.dumps(index.functions)
    head = f'{{"digest": "{source_digest()}",\n"schemes": [\n{schemes}\n],\n"functions": {functions},\n'
    return f'{head}"studies": {{\n{entries}\n}}}}\n'


def study_entry(study: Study) -> dict[str, Any]:
    """Collect what help, lists and checks of names need about a study.

    Args:
        study: The study.

    Returns:
        "question", "takes", "metrics", "views" (name, axes, about), "arrays", "data" (file -> use), "examples",
        "presets", "figures" (parts of publications), "panels", "variants" (panel -> preset -> condition -> labels),
        "varies" (panel -> preset -> dotted paths of settings), "labels" (string constants of the code of the variants),
        "passes" (True if an epoch is a pass over the training data) and "settings" (by preset).
    """
    module = _module(study)
    return {
        "question": study.question,
        "takes": study.takes,
        "metrics": list(study.metrics),
        "views": [view._asdict() for view in study.views],
        "arrays": {name: list(about) for name, about in study.arrays.items()},
        "data": dict(study.data),
        "examples": _examples(module.__doc__ or ""),
        "presets": {
            name: {
                "about": preset.about,
                "time": preset.about.rpartition(": ")[2],
                "seeds": len(preset.seeds),
                "panels": list(preset.panels),
                "asks": preset.asks,
            }
            for name, preset in study.presets.items()
        },
        "figures": [_figure(study, part) for part in study.parts],
        "panels": {name: {"about": panel.about, "shows": panel.shows} for name, panel in study.panels.items()},
        "variants": {name: {preset: _needs(study, name, preset) for preset in study.presets} for name in study.panels},
        "varies": {name: {preset: _varies(study, name, preset) for preset in study.presets} for name in study.panels},
        "labels": _labels(Path(module.__file__ or "").parent),
        "passes": study.passes,
        "settings": {preset: _settings(study, preset) for preset in study.presets},
    }


def _module(study: Study) -> Any:
    """The package whose ``STUDY`` is a study."""
    from posenc.workbench import studies

    return next(
        module
        for name, module in sys.modules.items()
        if name.startswith(f"{studies.__name__}.") and getattr(module, "STUDY", None) is study
    )


def _figure(study: Study, part: PaperPart) -> dict[str, Any]:
    """Row of ``posenc list figures``."""
    from posenc.workbench.report.publications import publication_of

    paper = publication_of(part.publication)
    return {
        "paper": paper.short or paper.mark,
        "title": paper.title,
        "figure": part.name,
        "shows": part.shows,
        "panel": part.panel,
        "condition": part.condition,
        "needs": study.condition(part.condition).needs if part.condition else "",
        "variants": list(part.variants),
        "command": part.drawn_by(study.name),
        "lacks": part.lacks,
    }


def _examples(docstring: str) -> list[list[str]]:
    """Command lines of a study's docstring, each with its remark."""
    lines = [line.strip() for line in docstring.splitlines() if line.startswith("    posenc run ")]
    return [[part.strip() for part in (*re.split(r" {2,}", line, maxsplit=1), "")[:2]] for line in lines]


def _needs(study: Study, panel: str, preset: str) -> dict[str, list[str]]:
    """Variants of a panel by condition, without data; empty for a panel that a preset does not have."""
    from posenc.workbench.studies import Request
    from posenc.workbench.studies.shared.planning import ALL

    needs = study.panels[panel].needs(Request(preset=preset, panels=(ALL,)), study.presets[preset])
    return {condition: list(labels) for condition, labels in needs.items()}


def _varies(study: Study, panel: str, preset: str) -> list[str]:
    """Settings that a panel varies; empty for a panel that a preset does not have."""
    from posenc.workbench.studies import Request
    from posenc.workbench.studies.shared.changes import varied_settings

    needed = _needs(study, panel, preset)
    return sorted(varied_settings(study, Request(preset=preset), panel)) if needed else []


def _labels(folder: Path) -> list[str]:
    """String constants of the code that reads the labels of a study.

    A label that the study accepts is one of them, is made of them, or names a scheme.
    """
    shared = PACKAGE / "workbench" / "studies" / "shared"
    constants = set[str]()
    for path in sorted((folder / "variants.py", *folder.glob("conditions.py"), *shared.glob("*variants.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and LABEL.fullmatch(node.value):
                constants.add(node.value)
    return sorted(constants)


def _settings(study: Study, preset: str) -> list[dict[str, Any]]:
    """Settings of a study that --set changes, with the defaults of a preset.

    "leaves" has the path of each field, its path without keys of mappings, its default, its smallest number, and its
    texts if only some are possible. "zero" is the reason why the study refuses 0, for a number that may not be 0.
    """
    from posenc.workbench.studies.shared.changes import settings_of

    aliases: dict[str, list[str]] = {}
    for path, name in study.presets[preset].aliases.items():
        aliases.setdefault(name, []).append(path)
    return [
        {
            "name": setting.name,
            "type": setting.type,
            "default": setting.default,
            "choices": list(setting.choices),
            "aliases": aliases.get(setting.name, []),
            "leaves": [
                [path, field, default, least, list(study.presets[preset].names.get(path, ()))]
                for path, field, default, least in zip(
                    setting.paths, setting.field_of, setting.defaults, setting.least_of, strict=True
                )
            ],
            "zero": _reason_against_zero(study, preset, setting),
        }
        for setting in settings_of(study, preset)
    ]


def _reason_against_zero(study: Study, preset: str, setting: Setting) -> str:
    """Reason why a configuration refuses 0 for a number; "" if it does not."""
    from posenc.workbench.studies import Request
    from posenc.workbench.studies.shared.changes import changed_preset

    if setting.type.removesuffix(" or none") not in NUMBERS:
        return ""
    try:
        changed_preset(study.presets, Request(preset=preset, changes={setting.name: "0"}))
    except ValueError as error:
        return str(error).partition(" is not possible: ")[2]
    return ""
