"""Estimated time of quick presets over the time that came, on a machine as busy as it is.

    python benchmarks/estimates.py nmar own language --force --data DIR --out results/estimates-cpu.json
    python benchmarks/estimates.py gridpe permuted --first --force --data DIR --out results/estimates-first-cpu.json

Each preset is ``posenc run`` in a process of its own with an empty store, and the time of each printed line is kept.
``start`` is the time from the line "Estimate: .." to the page, over the printed estimate; its number for free
processors stands beside it. ``left`` is the same for every later line "about .. left": the time from the line to the
end of the training, over the printed time. The loads are averages of one minute. ``own`` is the array of presets.py.
With ``--first`` a preset is asked for some of its runs alone: one seed of the variants in ``FIRST``.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from command import keep, met, options
from posenc.workbench.provenance import cores
from presets import array

NAMES = ("nmar", "own", "language", "image-fit", "permuted", "globe", "sc-pe", "latin-squares", "shape-fit", "points",
         "gridpe", "scene", "series", "recall", "masked", "graphs", "places")  # fmt: skip
FIRST: dict[str, str] = {
    "language": "--schemes nope rope", "image-fit": "--panels fit --schemes none", "permuted": "--schemes learned-0.1",
    "globe": "--schemes xyz", "sc-pe": "--panels concatenation --schemes plain", "nmar": "--schemes learned-0.1",
    "latin-squares": "--schemes 2d-fixed", "shape-fit": "--panels fit --schemes gaussian-2",
    "own": "--schemes learned-0.1", "points": "--schemes rope-axial", "gridpe": "--panels accuracy --schemes nope",
    "scene": "--panels encodings --schemes hash", "series": "--schemes time-rotation", "recall": "--schemes nope rope",
    "masked": "--schemes learned-0.1", "graphs": "--schemes rwse", "places": "--schemes fourier",
}  # fmt: skip
"""Options that leave some runs of a preset, beside ``--seeds 0``."""
AIM = 1.5
"""Largest factor between an estimate and the time that comes."""
DURATION = r"(?:\d+ days )?(?:\d+ h )?(?:\d+ min|\d+ s)?"
UNITS = {"days": 86400, "h": 3600, "min": 60, "s": 1}
SETTLED = 0.1
"""Part of the training after which the printed remaining times count."""


def main() -> int:
    parser = options("Estimated over true time of quick presets.", 1, of="each")
    parser.add_argument("names", nargs="+", choices=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--data", type=Path, help="folder of real data, for those that need it")
    parser.add_argument("--first", action="store_true", help="some runs of each preset alone")
    chosen = parser.parse_args()  # other studies that run are a part of the load that estimates have to allow for
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen.names:
            stores = [Path(folder) / f"{name}-{n}" for n in range(chosen.rounds)]
            found[name] = [one(name, store, chosen.data, first=chosen.first) for store in stores]
            for each in found[name]:
                print(f"{name}: {sentence(each)}", flush=True)
            keep(chosen, cores=cores(), aim=AIM, first=FIRST if chosen.first else {}, found=found)
    return 0


def sentence(measured: dict[str, Any]) -> str:
    """The ratios of one run in words."""
    start, left = measured["start"], measured["left"]
    return (
        f"{measured['seconds']:.0f} s after an estimate of {measured['estimate']:.0f} s, ratio {start:.2f} "
        f"({met(1 / AIM <= start <= AIM)}); while training {left['within']} of {left['lines']} lines within {AIM}, "
        f"median ratio {left['median']:.2f}"
    )


def one(name: str, store: Path, data: Path | None, *, first: bool = False) -> dict[str, Any]:
    """Run a preset, or its first runs; its estimates beside the times that came. Raises ValueError if it fails."""
    command = [str(Path(sys.executable).with_name("posenc")), "run", name]
    if name == "own":
        array(store.with_suffix(".npz"))
        command = [*command[:2], "masked", str(store.with_suffix(".npz"))]
    elif name == "recall":
        command = [*command[:2], "language", "--panels", "recall"]
    elif data is not None:
        command += ["--data", str(data)]
    command += [*FIRST[name].split(), "--seeds", "0"] if first else []
    began, loads, lines = time.monotonic(), [os.getloadavg()[0]], list[tuple[float, str]]()
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*command, "--out", str(store)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )
    assert process.stdout is not None
    for line in process.stdout:
        lines.append((time.monotonic() - began, line.rstrip()))
    if process.wait():
        raise ValueError(f"posenc run {name} failed: {' '.join(text for _, text in lines[-3:])}")
    return ratios(lines, time.monotonic() - began) | {"loads": [*loads, os.getloadavg()[0]]}


def ratios(lines: list[tuple[float, str]], total: float) -> dict[str, Any]:
    """Ratios of the time that came to the printed time; below 1 an estimate was too long."""
    at, text = next((at, text) for at, text in lines if text.startswith("Estimate: "))
    estimate = seconds(re.findall(f"about ({DURATION})", text)[0])
    free = re.search(rf"\(({DURATION}) if they were free\)", text)
    end = next(at for at, text in reversed(lines) if re.match(r"\d+ done, \d+ done before", text))
    begin_at = next(at for at, text in lines if re.search(r"\bruns? to execute", text))
    settled = begin_at + SETTLED * (end - begin_at)
    printed = [(at, re.search(rf"about ({DURATION}) left", text)) for at, text in lines]
    while_training = [(at, seconds(match[1])) for at, match in printed if match and settled <= at < end]
    left = [(end - at) / time_left for at, time_left in while_training if time_left]
    return {
        "estimate": estimate,
        "estimate_free": seconds(free[1]) if free else estimate,
        "seconds": total - at,
        "start": (total - at) / estimate,
        "left": {
            "lines": len(left),
            "within": sum(1 / AIM <= ratio <= AIM for ratio in left),
            "median": statistics.median(left) if left else float("nan"),
            "ratios": [round(ratio, 3) for ratio in left],
        },
    }


def seconds(text: str) -> float:
    """Seconds of a printed duration, such as "3 h 20 min"."""
    return float(sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+) (days|h|min|s)", text)))


if __name__ == "__main__":
    sys.exit(main())
