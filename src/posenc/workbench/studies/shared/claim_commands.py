"""Commands that give the numbers of a claim again: preset, panels, variants, seeds and data of its stored runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posenc.workbench.report.claims_table import Claim
from posenc.workbench.report.result_rows import Row
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared import planning

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study

Cell = tuple[str, str]
"""Condition and variant."""


class _Recorded(dict[str, Any]):
    """Row that notes that its value was read."""

    read = False

    def __getitem__(self, name: str) -> Any:
        if name == "value":
            self.read = True
        return super().__getitem__(name)


def cells_of_claim(claim: Claim, rows: Sequence[Row]) -> dict[Cell, frozenset[int]]:
    """Find the runs whose values decide the numbers of a claim.

    Args:
        claim: The claim.
        rows: Result rows of one study and one preset.

    Returns:
        (Condition, variant) to its seeds, for every variant without which a number of the claim changes.
    """
    by_quantity = []
    for quantity in (*claim.quantities, *claim.controls):
        recorded = [_Recorded(row) for row in rows]
        number = repr(quantity.estimate(recorded))
        by_quantity.append((quantity, number, {place for place, row in enumerate(recorded) if row.read}))
    touched = sorted(set().union(*(places for _, _, places in by_quantity)))
    places: dict[Cell, set[int]] = {}
    for place in touched:
        places.setdefault((rows[place]["setting"], rows[place]["scheme"]), set()).add(place)
    used = {}
    for cell, own in places.items():
        others = [rows[place] for place in touched if place not in own]
        # a number changes only if it was computed from some of the values that are taken away
        if any(own & read and repr(each.estimate(others)) != number for each, number, read in by_quantity):
            used[cell] = frozenset(rows[place]["seed"] for place in own)
    return used


def claim_commands(study: Study, preset: str, claim: Claim, rows: Sequence[Row], *, real_data: bool) -> tuple[str, ...]:
    """Commands whose runs give the numbers of a claim, in one store.

    Args:
        study: The study.
        preset: Preset of the rows.
        claim: The claim.
        rows: Result rows of the preset.
        real_data: True if the runs read the folder of real data.

    Returns:
        One command. If variants have different seeds, one for each set of seeds, with its variants. None without runs.
    """
    used = cells_of_claim(claim, rows)
    panels = panels_of_claim(study, preset, claim, used)
    by_seeds: dict[frozenset[int], list[str]] = {}
    for (_, variant), seeds in used.items():
        by_seeds.setdefault(seeds, []).append(variant)
    known, commands = _variants(study, preset, panels), []
    apart = _conditions_apart(study, preset, panels, used)
    for seeds, variants in sorted(by_seeds.items(), key=lambda group: sorted(group[0])):
        named = sorted(set(variants)) if len(by_seeds) > 1 or not known >= {*variants} else []
        words = [f"posenc run {study.name}"]
        words += [f"--preset {preset}"] if preset != "quick" else []
        words += ["--data DIR"] if real_data else []
        words += [f"--panels {' '.join(panels)}"] if panels else []
        words += [f"--conditions {' '.join(map(_quoted, apart))}"] if apart else []
        words += [f"--schemes {' '.join(map(_quoted, named))}"] if named else []
        words += [f"--seeds {' '.join(map(str, sorted(seeds)))}"] if seeds != {*study.presets[preset].seeds} else []
        words += ["--yes"] if study.asks(preset) else []
        commands.append(" ".join(words))
    return tuple(commands)


def panels_of_claim(study: Study, preset: str, claim: Claim, used: Collection[Cell]) -> tuple[str, ...]:
    """Panels of a claim's command; none if the claim names none and the preset draws them by default.

    Args:
        study: The study.
        preset: The preset.
        claim: The claim.
        used: (Condition, variant) of its runs.

    Returns:
        Names of the panels, those included that train variants which the panels of the claim lack.
    """
    _, _, words = claim.command.partition("--panels ")
    named = [word for word in words.partition(" --")[0].split() if _has_panel(study, preset, word)]
    missing = {variant for _, variant in used} - _variants(study, preset, named or None)
    if not named and not missing:
        return ()
    named = named or [claim.panel]
    for name in study.panels:
        if name not in named and _has_panel(study, preset, name) and missing & _variants(study, preset, [name]):
            named.append(name)
            missing -= _variants(study, preset, [name])
    return tuple(named)


def _conditions_apart(study: Study, preset: str, panels: Sequence[str], used: Collection[Cell]) -> list[str]:
    """Conditions of a claim that have a data set of their own, where its panels also train on the usual one."""
    usual = planning.needed(study, Request(preset=preset, panels=tuple(panels) or None))
    conditions = sorted({condition for condition, _ in used})
    own_data = not any(study.condition(label).takes_file for label in conditions)
    return conditions if own_data and any(study.condition(label).takes_file for label in usual) else []


def _variants(study: Study, preset: str, panels: Sequence[str] | None) -> set[str]:
    """Variants that panels train, by default those of the preset."""
    needed = planning.needed(study, Request(preset=preset, panels=tuple(panels) if panels else None))
    return {variant for variants in needed.values() for variant in variants}


def _has_panel(study: Study, preset: str, name: str) -> bool:
    """True if a preset has a panel: some panels are of one scale alone."""
    try:
        planning.needed(study, Request(preset=preset, panels=(name,)))
    except ValueError:
        return False
    return True


def _quoted(label: str) -> str:
    return f'"{label}"' if set(label) & set(" ()'&;$") else label


def documented_commands(
    study: Study, scales: Mapping[str, Sequence[Row]], real_data: Mapping[str, bool]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Commands of every claim at every scale, for the claims document.

    Args:
        study: The study.
        scales: Preset to its result rows.
        real_data: Preset to True if its runs read the folder of real data.

    Returns:
        Name of a claim to preset to its commands.
    """
    return {
        claim.name: {
            preset: commands
            for preset, rows in scales.items()
            if (commands := claim_commands(study, preset, claim, rows, real_data=real_data[preset]))
        }
        for claim in study.claims
    }
