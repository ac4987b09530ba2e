"""What the command lines of all benchmarks share: their options, the refusal on a busy machine, the file of figures."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from posenc.workbench import provenance
from quiet import refusal


def options(description: str, rounds: int, *, of: str = "each comparison") -> argparse.ArgumentParser:
    """--out, --rounds and --force; a benchmark adds its own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file as well")
    parser.add_argument("--rounds", type=int, default=rounds, help=f"rounds of {of} (default {rounds})")
    parser.add_argument("--force", action="store_true", help="time on a busy machine too")
    return parser


def begin(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What was chosen; ends the program with one sentence and status 2 where timings would mean nothing."""
    chosen = parser.parse_args()
    if trouble := refusal(chosen.force):
        print(trouble, file=sys.stderr)
        raise SystemExit(2)
    return chosen


def met(reached: bool) -> str:
    return "met" if reached else "MISSED"


def keep(chosen: argparse.Namespace, **figures: Any) -> None:
    """Writes the figures, with the load of the last minute and what made them, to the file that was asked for."""
    load = os.getloadavg()[0]
    print(f"load average at the end: {load:.2f}")
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        document = {"forced": chosen.force, "load": load, **figures, "provenance": provenance.gather()}
        chosen.out.write_text(json.dumps(document, indent=1) + "\n")
