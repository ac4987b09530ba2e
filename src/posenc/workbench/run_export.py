"""Export of one stored run to a file: weights, ONNX, picture, mesh or table."""

from __future__ import annotations

import csv
import io
import json
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import nn

from posenc.workbench import studies
from posenc.workbench.files.output_files import refuse_output, write_outputs
from posenc.workbench.model_loading import choose_run, model_of
from posenc.workbench.report import animation
from posenc.workbench.report.number_format import join_words
from posenc.workbench.report.raster_image import encode_png
from posenc.workbench.request_options import SchemeOfRun, scheme_names
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import Stored
from posenc.workbench.studies.shared.stored_model import ColoredMesh, StoredModel

FORMS: Mapping[str, str] = {
    ".csv": "a table of its metrics and learning curves",
    ".safetensors": "its weights",
    ".onnx": "its model as ONNX",
    ".png": "its picture",
    ".ply": "its surface as a mesh",
    ".gif": "its turntable as a GIF",
    ".mp4": "its turntable as a video",
}
"""Suffix of a file to its content."""
COLUMNS = ("run", "study", "preset", "condition", "variant", "seed", "metric", "epoch", "value")
LARGEST_SIDE, LARGEST_LATTICE, LARGEST_FILM = 16384, 512, 2048
"""Largest side of a picture in pixels, most lattice points per axis of a mesh, and largest side of a turntable."""
FILMS = (".gif", ".mp4")


def export_run(
    store: str | Path,
    to: str | Path,
    *,
    run: str | None = None,
    study: str | None = None,
    variant: str | None = None,
    seed: int | None = None,
    condition: str | None = None,
    preset: str | None = None,
    source: str | Path | None = None,
    size: int | None = None,
    force: bool = False,
    schemes: Sequence[SchemeOfRun] | None = None,
) -> Path:
    """Write one stored run to a file, as ``posenc export`` does. The suffix of the file decides its content.

    ``.safetensors`` holds the weights, and as metadata the convention of input and output, and for a classifier of
    images the names of its classes. ``.onnx`` holds the model, for any size of the first axis of its input (1 for a
    vision transformer: one image at a time). ``.png`` is the
    picture of an image field. ``.ply`` is the mesh of a shape field or of the density of a scene, in the coordinates of
    the user's file. ``.gif`` and ``.mp4`` (which needs the program ffmpeg) are the turntable of a scene. ``.csv`` holds
    the metrics and learning curves.

    Args:
        store: The store, such as "runs".
        to: The file.
        run: First digits of the identity of the run, in place of all names.
        study: Name of the study. Default: the only one.
        variant: Label of the encoding. Default: the only one.
        seed: Seed of the run. Default: the only one.
        condition: Label of the condition. Default: the main one, or the only one.
        preset: Preset of the run. Default: the only one.
        source: Data of the run. Default: the only data.
        size: Longest side of a picture in pixels, lattice points per axis of a mesh, or side of a turntable in pixels.
            Default: those of the fitted image; those of the study.
        force: True to replace the file if it exists. A link or a device is never replaced.
        schemes: Your own schemes that its model has, with the code that they had in the run.

    Returns:
        The file.

    Raises:
        StoreError: The folder is not a store, the run is damaged, or it lacks the weights that the file needs.
        ValueError: No run or several runs fit, the run cannot take this form, or the file cannot be written.

    Example:
        >>> import tempfile
        >>> from posenc.workbench import RunResult, RunSpec, Store, export_run
        >>> store = Store(tempfile.mkdtemp())
        >>> spec = RunSpec(study="globe", variant="xyz", seed=0, preset="quick", procedure="globe.train", settings={})
        >>> store.finish(spec, RunResult(metrics={"rmse": 0.5}), {"seconds": 1.0})
        >>> export_run(store.root, store.root / "run.csv").read_text().splitlines()[1].partition(",")[2]
        'globe,quick,main,xyz,0,rmse,,0.5'
    """
    path, opened = Path(to), Store(store, create=False)
    suffix = path.suffix.lower()
    if suffix not in FORMS:
        forms = join_words([f"{name} ({content})" for name, content in FORMS.items()])
        raise ValueError(f"{path} has no suffix that names a form. Write one of {forms}.")
    refuse_output(path, force)
    scheme_names(schemes)  # makes their code available
    names = {"study": study, "preset": preset, "variant": variant, "seed": seed, "condition": condition}
    stored = choose_run(opened, names, source, run)
    declared = studies.find(stored.spec.study).stored_model
    _refuse_form(suffix, stored, declared, size)
    if suffix == ".csv":
        content = _table(stored)
        return write_outputs([(path, lambda partial: partial.write_bytes(content))], force=force)[0]
    model = model_of(opened, stored)
    assert declared is not None, "model_of refuses a study that stores no model"
    write = _writer(suffix, model, declared, opened, stored, size)
    return write_outputs([(path, write)], force=force)[0]


def forms_of(stored: Stored, declared: StoredModel | None) -> list[str]:
    """List the suffixes of the files that a run can be written to.

    Args:
        stored: The run.
        declared: The stored model of its study; None without one.

    Returns:
        The suffixes.
    """
    if declared is None or not stored.has_network:
        return [".csv"]
    hooks = {".onnx": declared.example, ".png": declared.picture, ".ply": declared.surface}
    hooks |= dict.fromkeys(FILMS, declared.film)
    return [suffix for suffix in FORMS if hooks.get(suffix, True) is not None]


def _refuse_form(suffix: str, stored: Stored, declared: StoredModel | None, size: int | None) -> None:
    """Raise ValueError for a form that a run cannot take, or for a wrong size."""
    forms = forms_of(stored, declared)
    if suffix not in forms and (declared is None or stored.has_network):
        lacks = {
            ".onnx": "its model has several inputs, and a file of ONNX is made for one",
            ".png": "it is no picture",
            ".ply": "it has no surface",
            **dict.fromkeys(FILMS, "it has no turntable"),
        }.get(suffix, "its study stores no model")
        raise ValueError(
            f"a run of {stored.spec.study} cannot be written as {suffix}: {lacks}. It can be written as "
            f"{', '.join(forms)}."
        )
    if size is None:
        return
    limits = {".png": (1, LARGEST_SIDE, "pixels of the longest side"), ".ply": (2, LARGEST_LATTICE, "lattice points")}
    limits |= dict.fromkeys(FILMS, (8, LARGEST_FILM, "pixels per side"))
    if suffix not in limits:
        raise ValueError(f"{suffix} has no size. Leave it out; a size is for .png, .ply, .gif and .mp4.")
    least, most, what = limits[suffix]
    if not least <= size <= most:
        raise ValueError(f"the size of {suffix} is {least} to {most} {what}; got {size}.")


def _writer(
    suffix: str, model: nn.Module, declared: StoredModel, store: Store, stored: Stored, size: int | None
) -> Callable[[Path], object]:
    """Function that writes the file. Everything that can be refused is computed before."""
    if suffix == ".safetensors":
        from safetensors.torch import save_file

        weights, metadata = stored.weights, _metadata(model, stored)
        return lambda partial: save_file(weights, partial, metadata)
    if suffix == ".png":
        assert declared.picture is not None
        png = encode_png(declared.picture(model, size))
        return lambda partial: partial.write_bytes(png)
    if suffix == ".ply":
        assert declared.surface is not None
        ply = _ply(declared.surface(model, store.root, size))
        return lambda partial: partial.write_bytes(ply)
    if suffix in FILMS:
        assert declared.film is not None
        if suffix == ".mp4":
            animation.require_ffmpeg()
        frames = declared.film(model, store.root, size)
        return lambda partial: animation.write_film(partial, suffix, frames)
    assert declared.example is not None
    program = _onnx_program(model, declared.example(stored.spec), _metadata(model, stored))
    return program.save


def _metadata(model: Any, stored: Stored) -> dict[str, str]:
    """Texts on a run that a file of weights holds."""
    spec = stored.spec
    labels = {"study": spec.study, "variant": spec.variant, "condition": spec.condition, "seed": str(spec.seed)}
    settings = json.dumps(msgspec.to_builtins(spec.settings), sort_keys=True)
    classes = {name: json.dumps(getattr(model, name)) for name in ("classes", "reading") if hasattr(model, name)}
    return {"run": stored.identity, **labels, "convention": model.convention, "settings": settings, **classes}


def _onnx_program(model: nn.Module, example: torch.Tensor, metadata: Mapping[str, str]) -> Any:
    """The model as a program of ONNX. Raises ValueError where a package is missing or the exporter fails."""
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError:
        raise ValueError("ONNX needs the packages onnx and onnxscript: pip install 'posenc[onnx]'") from None
    log, before = logging.getLogger("torch.onnx"), logging.getLogger("torch.onnx").level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own
        log.setLevel(logging.ERROR)
        try:
            program = torch.onnx.export(_captured(model, example), dynamo=True, verbose=False)
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"this model cannot be written as ONNX: {reason}. Write .safetensors.") from error
        finally:
            log.setLevel(before)
    assert program is not None
    program.model.metadata_props.update(metadata)
    return program


def _captured(model: nn.Module, example: torch.Tensor) -> torch.export.ExportedProgram:
    """The model for any size of the first axis of its input; for size 1 where its code needs a fixed size."""
    from torch._dynamo.exc import UserError  # torch.export raises it for a size that is not free

    try:
        return torch.export.export(model, (example,), dynamic_shapes=({0: torch.export.Dim("n", min=1)},))
    except UserError:
        return torch.export.export(model, (example[:1],))


def _ply(mesh: ColoredMesh) -> bytes:
    """Binary PLY file of a mesh."""
    kinds: list[tuple[str, str]] = [(axis, "<f4") for axis in "xyz"]
    kinds += [(name, "u1") for name in ("red", "green", "blue")] if mesh.colors is not None else []
    vertices = np.empty(len(mesh.vertices), np.dtype(kinds))
    for number, axis in enumerate("xyz"):
        vertices[axis] = mesh.vertices[:, number]
    for number, name in enumerate(("red", "green", "blue") if mesh.colors is not None else ()):
        vertices[name] = mesh.colors[:, number] if mesh.colors is not None else 0
    faces = np.empty(len(mesh.faces), dtype=[("n", "u1"), ("f", "<i4", 3)])
    faces["n"], faces["f"] = 3, mesh.faces
    properties = "".join(f"property {'float' if kind == '<f4' else 'uchar'} {name}\n" for name, kind in kinds)
    header = (
        f"ply\nformat binary_little_endian 1.0\nelement vertex {len(vertices)}\n{properties}"
        f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    )
    return header.encode() + vertices.tobytes() + faces.tobytes()


def _table(stored: Stored) -> bytes:
    """CSV with the metrics of a run, without an epoch, and then the points of its learning curves."""
    spec, text = stored.spec, io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    labels = (stored.name, spec.study, spec.preset, spec.condition, spec.variant, spec.seed)
    for metric, value in stored.metrics.items():
        writer.writerow((*labels, metric, "", repr(value)))
    for row in stored.curves:
        writer.writerow((*labels, row["metric"], row.get("epoch", ""), repr(row["value"])))
    return text.getvalue().encode()
