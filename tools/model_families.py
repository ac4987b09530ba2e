"""Table of model families of transformers and timm with the encodings that posenc can put into them: docs/models.md.

python tools/model_families.py            measures and writes docs/models.md (three minutes)
python tools/model_families.py --check    fails if docs/models.md has other families or outcomes

Each family is measured on one tiny model with random weights.
"""

from __future__ import annotations

import copy
import importlib
import re
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import torch

from posenc import ALiBi, Sinusoid, __version__
from posenc.adapt import learned_table, llama, replace_table, resize_table, saved_class

sys.path.insert(0, str(Path(__file__).parent))
from family_row import ALLOWED, Row, difference, outcome
from timm_families import TIMM_GRIDS, TIMM_WINDOWS, VISION, timm_grid_row, timm_window_row, vision_row
from vision_families import GRIDS, IMAGES, WINDOWS, grid_row, image_row, window_row

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "models.md"
WIDTH = 120
SIZES: dict[str, Any] = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 4, "vocab_size": 60,
    "intermediate_size": 64, "max_position_embeddings": 64, "head_dim": 16, "num_experts": 4, "num_local_experts": 4,
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "pad_token_id": 0,
    "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
ROTARY = (
    "Afmoe", "Apertus", "Arcee", "Bamba", "BitNet", "Cohere", "Cohere2", "Doge", "Ernie4_5", "Ernie4_5_Moe", "Exaone4",
    "FlexOlmo", "Gemma", "Gemma2", "Glm", "Glm4", "Glm4Moe", "GPTNeoX", "GptOss", "Granite", "GraniteMoe", "GraniteSWA",
    "Helium", "HunYuanDenseV1", "JetMoe", "Lfm2", "Llama", "Llama4Text", "MiniMax", "Ministral3", "Mistral", "Mixtral",
    "NanoChat", "Nemotron", "Olmo", "Olmo2", "Olmo3", "Olmoe", "Persimmon", "Phi", "Phi3", "Phimoe", "Qwen2", "Qwen3",
    "Qwen3Moe", "SeedOss", "SmolLM3", "StableLm", "Starcoder2",
)  # fmt: skip
"""Families of ``...ForCausalLM`` that rotate."""
TABLES: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT2": ("GPT2LMHeadModel", {"n_head": 4}),
    "GPTBigCode": ("GPTBigCodeForCausalLM", {"n_head": 4}),
    "GPTNeo": ("GPTNeoForCausalLM", {"num_layers": 2, "num_hidden_layers": 2, "num_heads": 4,
                                     "attention_types": [[["global"], 2]]}),
    "OPT": ("OPTForCausalLM", {"ffn_dim": 64, "word_embed_proj_dim": 64}),
    "BioGpt": ("BioGptForCausalLM", {}),
    "Bert": ("BertModel", {}),
    "Roberta": ("RobertaModel", {"pad_token_id": 1}),
    "XLMRoberta": ("XLMRobertaModel", {"pad_token_id": 1}),
    "Camembert": ("CamembertModel", {"pad_token_id": 1}),
    "Electra": ("ElectraModel", {"embedding_size": 64}),
    "DistilBert": ("DistilBertModel", {"dim": 64, "n_heads": 4, "n_layers": 2, "hidden_dim": 64}),
    "Albert": ("AlbertModel", {"embedding_size": 64}),
    "MPNet": ("MPNetModel", {"pad_token_id": 1}),
    "CLIPText": ("CLIPTextModel", {"eos_token_id": 59, "bos_token_id": 58}),
    "Bart": ("BartModel", {"d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
                           "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}),
    "Bloom": ("BloomForCausalLM", {"n_head": 4, "n_layer": 2}),
    "T5": ("T5Model", {"d_model": 64, "num_layers": 2, "num_heads": 4, "d_ff": 64, "d_kv": 16}),
}  # fmt: skip
"""Families with a learned table, and some without: the class, and sizes of it."""


def rotary_row(family: str) -> Row:
    """Measure a rotary family: its own rotation, a bias in its attention while generating, and its files."""
    transformers = importlib.import_module("transformers")
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, f"{family}Config")(**SIZES)).eval()
    ids = torch.arange(1, 21)[None]

    def rotation() -> float:
        ours = llama(copy.deepcopy(model), length=32)
        assert all(torch.equal(t, dict(model.state_dict())[name]) for name, t in ours.state_dict().items())
        return difference(_logits(ours, ids), _logits(model, ids))

    def generated() -> float:
        ours = llama(copy.deepcopy(model), ALiBi(4))
        assert difference(_logits(ours, ids), _logits(model, ids)) > ALLOWED
        out = ours.generate(
            ids, max_new_tokens=6, do_sample=False, pad_token_id=0, output_logits=True, return_dict_in_generate=True
        )
        return difference(_logits(ours, out.sequences)[:, 19:-1], torch.stack(out.logits, 1))

    def saved() -> float:
        ours = llama(copy.deepcopy(model), ALiBi(4))
        with tempfile.TemporaryDirectory() as folder:
            ours.save_pretrained(folder)
            return difference(_logits(saved_class(folder).from_pretrained(folder).eval(), ids), _logits(ours, ids))

    return Row(family, tuple(map(outcome, (rotation, generated, saved))))


def table_row(family: str) -> Row:
    """Measure a family with a table: read and written back, repeated, and replaced and loaded from files."""
    transformers = importlib.import_module("transformers")
    torch.manual_seed(0)
    kind, sizes = TABLES[family]
    model = getattr(transformers, kind)(getattr(transformers, f"{family}Config")(**{**SIZES, **sizes})).eval()
    ids = torch.arange(2, 22)[None]

    def read() -> float:
        ours = copy.deepcopy(model)
        return difference(_hidden(replace_table(ours, learned_table(ours)), ids), _hidden(model, ids))

    def repeated() -> float:
        ours = copy.deepcopy(model)
        resize_table(ours, 2 * len(learned_table(ours).table))
        assert _hidden(ours, torch.arange(100)[None] % 40 + 2).isfinite().all()
        return difference(_hidden(ours, ids), _hidden(model, ids))

    def replaced() -> float:
        ours = copy.deepcopy(model)
        replace_table(ours, Sinusoid(64))
        assert difference(_hidden(ours, ids), _hidden(model, ids)) > ALLOWED
        with tempfile.TemporaryDirectory() as folder:
            ours.save_pretrained(folder)
            return difference(_hidden(type(ours).from_pretrained(folder).eval(), ids), _hidden(ours, ids))

    return Row(family, tuple(map(outcome, (read, repeated, replaced))))


def _logits(model: Any, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(ids, use_cache=False).logits


def _hidden(model: Any, ids: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=torch.ones_like(ids))[0]


def as_text(rows: list[Row], columns: tuple[str, ...]) -> str:
    """Rows as a Markdown table with refusals as notes below it."""
    notes: list[str] = []
    lines = ["| family | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for row in rows:
        cells = []
        for value in row.values:
            if isinstance(value, str) and value not in notes:
                notes.append(value)
            number = "0" if value == 0 else f"{value:.0e}" if isinstance(value, float) else ""
            cells.append(number or f"refused ({notes.index(str(value)) + 1})")
        lines.append(f"| {row.family} | " + " | ".join(cells) + " |")
    wrapped = [
        textwrap.fill(f"{n}. {note}", WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False)
        for n, note in enumerate(notes, 1)
    ]
    return "\n".join(lines) + "\n\nRefused:\n\n" + "\n".join(wrapped) + "\n"


def document() -> str:
    """The page, measured now."""
    transformers = importlib.import_module("transformers")
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    rotary = [rotary_row(family) for family in ROTARY]
    tables = [table_row(family) for family in TABLES]
    images = [image_row(family) for family in IMAGES]
    windows = [window_row(family) for family in WINDOWS]
    grids = [grid_row(family) for family in GRIDS]
    timm, (vision, timm_windows, timm_grids) = timm_rows()
    return HEAD.format(version=transformers.__version__, own=__version__) + TEMPLATE.format(
        rotary=as_text(rotary, ("own rotation", "ALiBi, generating", "ALiBi, from files")),
        tables=as_text(tables, ("read and written", "repeated", "replaced, from files")),
        images=as_text(
            images, ("read and written", "rows of a scheme, from files", "another image size", "image size, from files")
        ),
        windows=as_text(windows, ("read and written", "other windows", "other windows, from files")),
        grids=as_text(grids, ("own rotation", "another base", "another base, from files")),
        timm=timm,
        vision=as_text(vision, ("rows of a scheme", "another image size")),
        timm_windows=as_text(timm_windows, ("read and written", "another image size")),
        timm_grids=as_text(timm_grids, ("own rotation", "another base", "another image size")),
    )


def timm_rows() -> tuple[str, tuple[list[Row], list[Row], list[Row]]]:
    """The version of timm, and a row for each of its models."""
    sys.path.insert(0, str(ROOT / "tests"))
    sys.meta_path.append(importlib.import_module("stand_in").StandIn())  # last: a real torchvision is found first
    rows = (
        [vision_row(name) for name in VISION],
        [timm_window_row(name) for name in TIMM_WINDOWS],
        [timm_grid_row(name) for name in TIMM_GRIDS],
    )
    return importlib.import_module("timm").__version__, rows


HEAD = """# Models of transformers and timm

Each family was tried on one tiny model with random weights (transformers {version}, float32, CPU): the largest
difference of logits, or of the last hidden states, between two computations of the same encoding. At most 1e-05 is
allowed. Generated by `python tools/model_families.py`; `tests/adapt/test_model_families.py` measures every row.

"""
TEMPLATE = """## Models that rotate

* **own rotation**: `llama(model, length=32)` against the model before. All weights are equal.
* **ALiBi, generating**: `llama(model, ALiBi(heads))`; logits while generating with a cache against one forward pass.
* **ALiBi, from files**: `save_pretrained`, then `saved_class(path).from_pretrained(path)`.

{rotary}
## Models with a learned table

* **read and written**: `replace_table(model, learned_table(model))` against the model before.
* **repeated**: `resize_table(model, 2 * length)`, for a text of the old length against the model before.
* **replaced, from files**: `replace_table(model, Sinusoid(width))`, then `save_pretrained` and `from_pretrained`.

{tables}
## Models with a table of images

* **read and written**: `vision_transformer(model, learned_table(model))` against the model before.
* **rows of a scheme, from files**: `vision_transformer(model, Sinusoid(width, axes=2))`, then `save_pretrained` and
  `from_pretrained`.
* **another image size**: `vision_transformer(model, image=..)` against the model's own interpolation in each call.
  Where the model has none that works, as GroupViT, AIMv2 and PVT, against a model that was built for the new size, with
  rows of `torch.nn.functional.interpolate`. Interpolation is cubic without antialiasing, except for DINOv2 with
  registers (cubic with antialiasing), DPT and PVT (linear).
* **image size, from files**: the same, then `save_pretrained` and `from_pretrained`.

{images}
## Models with windows

* **read and written**: `replace_window_biases(model, window_biases(model))` against the model before.
* **other windows**: `resize_windows(model, 8, image=128)` from windows of 4 x 4 patches and images of 64 x 64 pixels,
  against a model that was built for these sizes, with tables interpolated by torch. BEiT and Data2Vec:
  `resize_windows(model, image=48)` against the model's own interpolation in each call.
* **other windows, from files**: the same, then `save_pretrained` and `from_pretrained`.

{windows}
## Models that rotate on a grid

* **own rotation**: `replace_grid_rotation(model, grid_rotation(model))` against the model before.
* **another base**: `replace_grid_rotation(model, AxialRoPE(head_dim, base=50, pairing="half"))` against a model that
  was built with this `rope_theta`.
* **another base, from files**: the same, then `save_pretrained` and `from_pretrained`.

{grids}
## Vision transformers of timm

Models of timm {timm} with two blocks of width 48 and 4 x 4 patches.

* **rows of a scheme**: `vision_transformer(model, Sinusoid(48, axes=2))` against those rows, written into the table.
* **another image size**: `vision_transformer(model, image=..)`, to 6 x 6 patches, against timm's `set_input_size`.

{vision}
## Models of timm with windows

* **read and written**: `replace_window_biases(model, window_biases(model))` against the model before.
* **another image size**: the same, then `model.set_input_size(img_size=128, window_size=8)` of both, from images of
  64 x 64 pixels and windows of 4 x 4 patches. The window of BEiT is the image.

{timm_windows}
## Models of timm that rotate on a grid

* **own rotation**: `replace_grid_rotation(model, grid_rotation(model))` against the model before.
* **another base**: `replace_grid_rotation(model, AxialRoPE(24, base=50, ..))`, with the order and the pairing of the
  model's own, against a model that was built with this `rope_temperature`.
* **another image size**: the first, then timm's `set_input_size`, against the same model without posenc.

{timm_grids}"""


def outcomes(text: str) -> list[str]:
    """The lines of a page without its numbers, which differ between machines."""
    return re.sub(r"(?<=\| )(\d+e[-+]\d+|0)(?= \|)|transformers [\d.]+", "", text).splitlines()


def main() -> int:
    """Write or check the page; the exit status is 1 if a check fails."""
    text = document()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or outcomes(PAGE.read_text(encoding="utf-8")) != outcomes(text):
            print("docs/models.md has other outcomes: python tools/model_families.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
