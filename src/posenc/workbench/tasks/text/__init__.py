"""Language modeling on texts: next-token prediction, and n-gram baselines.

    splits  by position: the first 90 % of the text for training, the next 5 % for validation, the last 5 % for testing
    window  N tokens and the token after them: token n + 1 is predicted from tokens 0 .. n of the window
    loss    mean of -ln p over the predicted tokens, in nats per token: a character, byte, word, subword or id

Example with a small text (Tiny Shakespeare has 1.1 million characters of 65 kinds):

>>> text = tokenize("to be or not to be " * 30)
>>> len(text.tokens), text.vocabulary[:4]
(570, (' ', 'b', 'e', 'n'))
>>> splits = split(text.tokens, longest=16)
>>> [len(part) for part in splits[:3]]
[514, 28, 28]
>>> windows(splits.test, 16, [0, 4]).shape  # 16 tokens and the next
torch.Size([2, 17])
>>> text.decode(windows(splits.test, 5, [0])[0])
'ot to '
>>> unigram, bigram = (fit_ngram(splits.train, len(text.vocabulary), order=order) for order in (1, 2))
>>> 1.6 < float(unigram.losses(splits.test).mean()) < 2.0
True
>>> 0.5 < float(bigram.losses(splits.test).mean()) < 0.9
True
"""

from __future__ import annotations

from posenc.measure.loss_by_context import windows
from posenc.workbench.tasks.text.ngrams import NgramModel, fit_ngram
from posenc.workbench.tasks.text.splits import (
    Splits,
    has_documents_to_hold_out,
    split,
    split_by_documents,
    split_by_seed,
    split_given,
    text_record,
    window_starts,
)
from posenc.workbench.tasks.text.text_codec import SubwordIds, TextCodec
from posenc.workbench.tasks.text.text_file import (
    FILE,
    Text,
    distinct_tokens,
    printable,
    read_text,
    tinyshakespeare_path,
    tokenize,
    tokenize_documents,
    vocabulary_phrase,
)
from posenc.workbench.tasks.text.tokenizers import Tokenizer, Unit, named_tokenizer

__all__ = [
    "FILE",
    "NgramModel",
    "Splits",
    "SubwordIds",
    "Text",
    "TextCodec",
    "Tokenizer",
    "Unit",
    "distinct_tokens",
    "fit_ngram",
    "has_documents_to_hold_out",
    "named_tokenizer",
    "printable",
    "read_text",
    "split",
    "split_by_documents",
    "split_by_seed",
    "split_given",
    "text_record",
    "tinyshakespeare_path",
    "tokenize",
    "tokenize_documents",
    "vocabulary_phrase",
    "window_starts",
    "windows",
]
