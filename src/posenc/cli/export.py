"""Command ``posenc export``: one stored run as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from posenc.cli.grammar import Positional, arg
from posenc.workbench import request_checks
from posenc.workbench.files.output_files import refuse_output


def export(
    run: Annotated[Positional[str | None], arg(metavar="RUN")] = None,
    to: Annotated[Path | None, arg(metavar="FILE")] = None,
    study: str | None = None,
    variant: Annotated[str | None, arg(metavar="VARIANT")] = None,
    seed: int | None = None,
    condition: Annotated[str | None, arg(metavar="CONDITION")] = None,
    preset: str | None = None,
    source: Annotated[str | None, arg(metavar="NAME|PATH")] = None,
    size: int | None = None,
    schemes: Annotated[tuple[str, ...] | None, arg(metavar="NAME ..")] = None,
    out: Path = Path("runs"),
    force: bool = False,
) -> int:
    """Write the trained model of one run, its picture, its mesh or its numbers to a file.

    The suffix of FILE decides: .safetensors (weights), .onnx (model), .png (picture of image-fit, in full size), .ply
    (mesh of shape-fit or of the density of scene, in the coordinates of your file), .gif and .mp4 (turntable of scene;
    .mp4 needs the program ffmpeg), .csv (metrics and learning curves). From Python: posenc.load("runs", study=..,
    variant=.., seed=..).

    For example:

    posenc export 1f3a9c02 --to field.safetensors

    posenc export --study image-fit --variant multires --seed 0 --to photo.png

    posenc export --study shape-fit --variant multires --seed 0 --to mesh.ply --size 256

    posenc export --study scene --variant multires --seed 0 --to turntable.gif --size 400

    Args:
        run: The run, by its identity or the first digits of it, as posenc results prints them. Without it, name the run
            by the options below, as far as several runs fit.
        to: New file to write.
        study: Study of the run.
        variant: Variant of the run.
        seed: Seed of the run.
        condition: Condition of the run; without it the main one, or the only one.
        preset: Preset of the run.
        source: Data of the run: name, NAME-DIGEST, or path of the file or folder.
        size: Longest side of a picture in pixels (without it that of the fitted image), lattice points per axis of a
            mesh, or side of a turntable in pixels.
        schemes: Your own schemes that the model has: my_scheme.py, a class of the file, or mypkg.bias:MyBias.
        out: The store.
        force: Replace the file if it exists. A link or a device is never replaced.
    """
    if to is None:
        raise ValueError("--to is missing. Name a file: posenc export RUN --to field.safetensors")
    refuse_output(to, force)
    request_checks.refuse_no_store(out)
    from posenc.workbench.run_export import export_run

    names = {"study": study, "variant": variant, "seed": seed, "condition": condition, "preset": preset}
    path = export_run(out, to, run=run, **names, source=source, size=size, force=force, schemes=schemes)
    print(f"{path}  {path.stat().st_size:,} bytes")
    return 0
