"""``posenc list``: schemes, studies, panels, variants, figures of papers and data, from the index."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from posenc.cli import index as index_file
from posenc.cli import name_checks
from posenc.cli.grammar import Positional, arg
from posenc.cli.text_table import entries, labels, paragraph, table
from posenc.lookup.scheme_reference import GROUP, has_reference, installed

Subject = Literal["schemes", "studies", "panels", "variants", "figures", "data"]
Site = Literal["embed", "q", "k", "v", "o", "qk", "bias", "value_bias", "mask", "mix"]


def list_names(
    subject: Positional[Subject] = "schemes",
    study: Annotated[Positional[str | None], arg(metavar="STUDY|SCHEME", names="listed")] = None,
    site: Site | None = None,
    axes: int | None = None,
    unbounded: bool = False,
    paper: str | None = None,
    format: Literal["table", "json"] = "table",
) -> int:
    """List schemes with their claims, studies, panels, variants, figures of papers or data.

    Panels and variants of all studies are listed, or those of one study. Below the variants of a study stand the views
    of the positions that any scheme can be put on, as "GridPE@grid".

    For example:

    posenc list schemes --site bias --axes 2 --unbounded

    posenc list studies

    posenc list panels latin-squares

    posenc list variants latin-squares --format json

    posenc list figures --paper 2406.08272

    posenc list schemes my_scheme.py

    Args:
        subject: Subject of the list. Default: schemes.
        study: Only panels, variants, figures or data of this study. For schemes, your own file, a class of it, or a
            class of a module, as mypkg.bias:MyBias.
        site: Only schemes that act at this site of a network; qk for q and k.
        axes: Only schemes that take positions with this number of axes.
        unbounded: Only schemes that take any position.
        paper: Only tables and figures of this paper, by its arXiv number or the short name in the list.
        format: table for a person, json for a program.
    """
    if subject != "schemes" and (site is not None or axes is not None or unbounded):
        raise ValueError(f"--site, --axes and --unbounded are for schemes, not for {subject}. See posenc list --help.")
    if paper is not None and subject != "figures":
        raise ValueError(f"--paper is for figures, not for {subject}. See posenc list --help.")
    if axes is not None and axes < 1:
        raise ValueError(f"--axes is a number of position axes, 1 or more; got {axes}. Use --axes 2 for a plane.")
    own = subject == "schemes" and study is not None and has_reference(study)
    if subject in ("schemes", "studies") and study is not None and not own:
        hint = ", or name a file of your own, as my_scheme.py" if subject == "schemes" else ""
        raise ValueError(f"posenc list {subject} takes no study; got {study!r}. Leave it out{hint}.")
    index = index_file.load()
    if study is not None and not own:
        name_checks.refuse_study(index, study)
    if subject == "schemes":
        content: Any = _schemes(index.schemes if study is None else _own_rows(study), site, axes, unbounded)
    elif subject == "studies":
        content = {name: _study(entry) for name, entry in index.studies.items()}
    else:
        chosen = {study: index.studies[study]} if study is not None else index.studies
        content = {name: entry[subject] for name, entry in chosen.items()}
    if subject == "figures":
        content = _of_paper(content, paper)
    print(json.dumps(content, indent=2) if format == "json" else _text(subject, content))
    if format == "table" and subject == "schemes" and study is None:
        _print_installed()
    if format == "table" and subject == "variants" and study is not None:
        print(_views(index.studies[study]["views"]))
    return 0


def _own_rows(text: str) -> list[dict[str, Any]]:
    """Rows of the user's schemes that a text names."""
    from posenc.cli.schemes import claims_of
    from posenc.lookup import own_files

    kinds = own_files.classes_named(text)
    if kinds is None:
        raise ValueError(f"{text!r} is a call, and a list shows classes. Leave out the brackets.")
    return [claims_of(kind.__name__, kind) for kind in kinds]


def _print_installed() -> None:
    """Print the schemes of installed packages by name, without importing them."""
    if offered := installed():
        rows = ((name, ", ".join(entry.value for entry in same)) for name, same in offered.items())
        print(f"\nschemes of installed packages, entry points of the group {GROUP}\n{entries(rows)}")


def _views(views: list[dict[str, Any]]) -> str:
    """Views of the positions of a study, on which any scheme can be put."""
    rows = []
    for view in views:
        axes = (
            "axes of the data" if view["axes"] is None else f"{view['axes']} {'axis' if view['axes'] == 1 else 'axes'}"
        )
        rows.append((f"@{view['name']}", f"{axes}: {view['about']}"))
    return f'  views of the positions, as in --schemes "GridPE@{views[0]["name"]}"\n{entries(rows, indent=4)}'


def print_studies() -> None:
    """Print every study with its question, its data and the time of its quick preset."""
    index = index_file.load()
    print(_text("studies", {name: _study(entry) for name, entry in index.studies.items()}))
    print("\nposenc run STUDY --help lists its presets, panels, variants and settings.")


def needs_data(entry: Mapping[str, Any]) -> str:
    """Describe the data that a study reads.

    Args:
        entry: Entry of the study in the index.

    Returns:
        One or two sentences.
    """
    own = f"FILE: {entry['takes']}." if entry["takes"] else ""
    files = "; ".join(f"{file}: {use}" for file, use in entry["data"].items())
    return " ".join(filter(None, (own, f"In --data DIR, {files}." if files else ""))) or "No data needed."


def _study(entry: Mapping[str, Any]) -> dict[str, Any]:
    times = {name: preset["time"] for name, preset in entry["presets"].items()}
    return {"question": entry["question"], "takes": entry["takes"], "data": entry["data"], "time": times}


def _schemes(rows: list[dict[str, Any]], site: str | None, axes: int | None, unbounded: bool) -> list[dict[str, Any]]:
    sites = {"q", "k"} if site == "qk" else {site} - {None}
    return [
        row
        for row in rows
        if (not unbounded or row["range"] is None)
        and (axes is None or takes_axes(row, axes))
        and sites <= set(row["sites"])
    ]


def takes_axes(row: Mapping[str, Any], axes: int) -> bool:
    """Return True for a row of the index of schemes that takes this number of axes."""
    any_number = "any" in row["axes"] or row["made_of"]
    return bool(any_number) or axes in row["axes"] or (row["axes_from"] is not None and axes >= row["axes_from"])


def axes_in_words(row: Mapping[str, Any], and_more: str) -> str:
    """Numbers of axes that a scheme takes.

    Args:
        row: Row of the scheme in the index.
        and_more: Words for the smallest number and all larger ones, as "{} or more".

    Returns:
        Text such as "1, 2", "1 or more", "any" or "by parts".
    """
    if row["made_of"]:
        return f"by {row['made_of']}"
    if row["axes_from"] is not None:
        return and_more.format(row["axes_from"])
    return ", ".join(map(str, row["axes"]))


def _text(subject: str, content: Any) -> str:
    return {
        "schemes": _scheme_table, "studies": _study_lines, "panels": _panel_lines, "variants": _variant_lines,
        "figures": _figure_lines, "data": _data_lines,
    }[subject](content)  # fmt: skip


def _scheme_table(rows: list[dict[str, Any]]) -> str:
    header = ("name", "sites", "axes", "translation", "learned", "range", "sharing")
    widths = (19, 10, 7, 11, 7, 7, 7)
    lines = [table(header, [], widths)]
    for row in rows:
        axes = axes_in_words(row, "from {}")
        limits = f"by {row['range_by']}" if row["range_by"] else _range(row["range"])
        cells = (row["name"], ", ".join(row["sites"]) or "none", axes, row["translation"],
                 "yes" if row["learned"] else "no", limits, row["sharing"])  # fmt: skip
        lines += [*table(cells, [], widths).splitlines(), paragraph(row["summary"], 4)]
    return "\n".join(lines)


def _range(limits: Any) -> str:
    """A range such as "0 to 23", or "0 to 13 x 0 to 6" if axes differ."""
    if limits is None:
        return "any"
    if isinstance(limits[0], int | float):
        return "{:g} to {:g}".format(*limits)
    return " x ".join(map(_range, limits))


def _study_lines(content: Mapping[str, Any]) -> str:
    parts = []
    for name, study in content.items():
        about = f"{needs_data(study)} Time at --preset quick: {study['time']['quick']}."
        parts.append(f"{name}\n{paragraph(study['question'], 4)}\n{paragraph(about, 4)}")
    return "\n".join(parts)


def _panel_lines(content: Mapping[str, Any]) -> str:
    parts = []
    for study, panels in content.items():
        rows = ((name, f"{panel['about']} ({panel['shows']})") for name, panel in panels.items())
        parts.append(f"{study}\n{entries(rows)}")
    return "\n".join(parts)


def _variant_lines(content: Mapping[str, Any]) -> str:
    parts = []
    for study, panels in content.items():
        parts.append(study)
        for preset in next(iter(panels.values())):
            conditions: dict[str, dict[str, None]] = {}
            for by_preset in panels.values():
                for condition, names in by_preset[preset].items():
                    conditions.setdefault(condition, {}).update(dict.fromkeys(names))
            rows = ((condition, labels(names)) for condition, names in conditions.items())
            parts.append(f"  --preset {preset}, by condition\n{entries(rows, indent=4)}")
    return "\n".join(parts)


def _of_paper(content: Mapping[str, list[dict[str, str]]], paper: str | None) -> dict[str, list[dict[str, str]]]:
    """Figures by study, of one paper if it is named; studies without figures are left out."""
    papers = list(dict.fromkeys(row["paper"] for rows in content.values() for row in rows))
    if paper is not None and paper not in papers:
        raise ValueError(f"--paper names {paper!r}. There are {', '.join(papers)}.")
    kept = {study: [row for row in rows if paper in (None, row["paper"])] for study, rows in content.items()}
    return {study: rows for study, rows in kept.items() if rows}


def _figure_lines(content: Mapping[str, list[dict[str, str]]]) -> str:
    parts, titles = [], dict[str, str]()
    for study, rows in content.items():
        titles |= {row["paper"]: row["title"] for row in rows}
        shown = []
        for row in rows:
            lacks = f" Not drawn or not run: {row['lacks']}." if row["lacks"] else ""
            shown.append((row["figure"], f"{row['shows']}.{lacks}"))
            shown += [("", row["command"])] if row["command"] else []  # on a line of its own, to be copied
        papers = ", ".join(dict.fromkeys(row["paper"] for row in rows))
        parts.append(f"{study if papers == study else f'{study}, {papers}'}\n{entries(shown)}")
    named = [paragraph(f"{paper}: {title}") for paper, title in titles.items()]
    return "\n".join([*named, *parts, "What is stored of each: docs/papers.md"])


def _data_lines(content: Mapping[str, Any]) -> str:
    folder = os.environ.get("POSENC_DATA", "")
    lines = [paragraph(f"Folder of real data: {folder or 'none. Name it: --data DIR, or $POSENC_DATA.'}")]
    files: dict[str, dict[str, str]] = {}
    for study, uses in content.items():
        for file, use in uses.items():
            files.setdefault(file, {})[study] = use
    for file, uses in files.items():
        state = "present" if folder and (Path(folder) / file).exists() else "absent" if folder else ""
        lines += [f"{file}  {state}".rstrip(), entries(uses.items())]
    return "\n".join([*lines, "posenc data --help makes, downloads and checks data."])
