"""An adapted model in transformers' ``Trainer``: its scheme is trained, saved and loaded."""

import pytest
import torch

from posenc.adapt import llama, saved_class
from posenc.schemes.t5_bias import T5Bias

pytestmark = [pytest.mark.oracles, pytest.mark.bare]
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

SIZES = {
    "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 50,
    "intermediate_size": 64, "max_position_embeddings": 64, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip


def test_the_trainer_takes_two_steps_and_its_checkpoint_has_the_scheme(tmp_path):
    torch.manual_seed(0)
    model = llama(transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES)), T5Bias(4))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    texts = [{"input_ids": ids, "labels": ids} for ids in torch.randint(50, (8, 16))]
    options = transformers.TrainingArguments(
        str(tmp_path), max_steps=2, per_device_train_batch_size=4, learning_rate=1e-2, report_to=[], save_steps=2,
        disable_tqdm=True, use_cpu=True, logging_strategy="no", dataloader_pin_memory=False,
    )  # fmt: skip
    outcome = transformers.Trainer(model, options, train_dataset=texts).train()
    assert outcome.global_step == 2
    changed = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert changed == set(before)
    assert any("rotary_emb.schemes" in name for name in changed)

    loaded = saved_class(tmp_path / "checkpoint-2").from_pretrained(tmp_path / "checkpoint-2").eval()
    ids = torch.arange(12)[None]
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids).logits, model.eval()(ids).logits, atol=1e-5, rtol=0)
