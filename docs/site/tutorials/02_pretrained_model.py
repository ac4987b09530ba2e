"""
Swap and stretch the encoding of a trained model
================================================

A language model was trained on texts of 64 tokens. What does it predict at token 200? This trains a small Llama of
transformers, gives it other encodings, and compares the loss by position.
"""

# %%
# The text: lines of 12 random letters, each given twice. The first copy of a line cannot be predicted. The second can,
# from the letter that stands 12 tokens earlier.
import copy

import matplotlib.pyplot as plt
import torch
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM

from posenc import RoPE, Shaw
from posenc.adapt import llama
from posenc.frequencies import linear, yarn

LINE, TRAINED, LONGER, LETTERS = 12, 64, 240, 16


def draw(samples: int, tokens: int, seed: int) -> torch.Tensor:
    """Texts (samples, tokens) of random lines, each given twice."""
    generator = torch.Generator().manual_seed(seed)
    lines = torch.randint(LETTERS, (samples, tokens // LINE + 1, LINE), generator=generator)
    return torch.cat([lines, lines], -1).flatten(1)[:, :tokens]


def train(model: LlamaForCausalLM, steps: int, lr: float) -> LlamaForCausalLM:
    """Train on texts of 64 tokens."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps)
    for step in range(steps):
        text = draw(24, TRAINED, seed=step)
        loss = model(text, labels=text).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model


sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
special = {"bos_token_id": None, "eos_token_id": None, "vocab_size": LETTERS, "max_position_embeddings": TRAINED}
torch.manual_seed(0)
trained = train(LlamaForCausalLM(LlamaConfig(**sizes, **special)), 300, lr=5e-3)

# %%
# ``llama`` reads the rotary embedding of the model and replaces it. ``linear`` divides all frequencies by the factor,
# ``yarn`` only those of pairs that turn slowly. Both need no training. For texts this short the ramp of YaRN needs
# other limits than the paper's.
dim = 16
schedules = {
    "linear": linear(dim // 2, factor=4.0),
    "YaRN": yarn(dim // 2, factor=4.0, trained=TRAINED, alpha=0.5, beta=2.0),
}
models = {"as trained": trained}
for name, frequencies in schedules.items():
    stretched = RoPE(dim, pairing="half", frequencies=frequencies)
    models[name] = llama(copy.deepcopy(trained), stretched, length=4 * TRAINED)

# %%
# Another scheme can take the place of the rotation, here Shaw's, which learns a vector for each distance up to 16 and
# one for all longer ones. The weights know another encoding, so the model is trained for 100 steps more, on 64 tokens
# as before. The control is as many steps with its own encoding.
torch.manual_seed(1)
models["Shaw, not trained"] = llama(copy.deepcopy(trained), Shaw(dim, max_distance=16))
models["Shaw, 100 steps"] = train(copy.deepcopy(models["Shaw, not trained"]), 100, lr=5e-3)
models["own encoding, 100 steps"] = train(copy.deepcopy(trained), 100, lr=5e-3)


# %%
# The loss in the second copy of each line. A guess among 16 letters costs 2.77 nats.
def loss_of_copies(model: LlamaForCausalLM) -> torch.Tensor:
    """Mean loss of the second copy of each line, (lines,)."""
    text = draw(64, LONGER, seed=1000)
    with torch.no_grad():
        losses = cross_entropy(model.eval()(text).logits[:, :-1].transpose(1, 2), text[:, 1:], reduction="none")
    by_position = torch.cat([torch.zeros(1), losses.mean(0)])
    return by_position.unflatten(0, (-1, 2, LINE))[:, 1].mean(1)


ends = range(2 * LINE, LONGER + 1, 2 * LINE)
figure, axis = plt.subplots(figsize=(8, 3.6), layout="constrained")
for name, model in models.items():
    losses = loss_of_copies(model)
    print(f"{name:25} {losses[:2].mean():.2f} within 64 tokens, {losses[-4:].mean():.2f} in the last 96 of 240")
    axis.plot(ends, losses.numpy(), marker="o", label=name)
axis.axvspan(0, TRAINED, color="0.9", zorder=0)
axis.axhline(2.77, color="0.5", linestyle=":", label="a guess")
axis.set(xlabel="position of the end of the copy (tokens)", ylabel="loss (nats)", title="Loss of predictable letters")
axis.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %%
# The gray part is the length of the training. Beyond it the model is worse than a guess, and training on short texts
# does not change that. YaRN costs a little within 64 tokens and holds to 240, as Shaw's distances do after their
# training. Linear stretching makes distance 12 look like 3, so the model looks at the wrong letter without training.
# One seed is an example, no evidence: with other random vectors, 100 steps of Shaw's scheme reach less.
#
# A trained model of yours is loaded with ``AutoModelForCausalLM.from_pretrained``; the rest is the same. "Recipes"
# shows how such a model is saved, and which families it was tried on.
