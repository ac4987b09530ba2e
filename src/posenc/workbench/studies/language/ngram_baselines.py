"""N-gram baselines on the text of a run: the fitted model and the tokens that it predicts, and its loss."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from posenc.workbench.studies.language.stored_text import TextOfRun
from posenc.workbench.tasks import text
from posenc.workbench.tasks.text.ngrams import NgramModel


def fitted_ngram(read: TextOfRun, window: int, order: Literal[1, 2]) -> tuple[NgramModel, Tensor]:
    """Fit an n-gram model to the training part of a text.

    Args:
        read: The text of a run.
        window: Training length in tokens.
        order: 1 for the unigram, 2 for the bigram.

    Returns:
        The model, and the test tokens ``(N,)`` of the training length that trained models predict too.
    """
    test = read.splits.test
    ngram = text.fit_ngram(read.splits.train, len(read.text.vocabulary), order=order)
    return ngram, test[: len(text.window_starts(len(test), window)) * window + 1]


def ngram_loss(read: TextOfRun, window: int, order: Literal[1, 2]) -> float:
    """Mean loss of an n-gram model at the training length, in nats; arguments as in ``fitted_ngram``."""
    ngram, predicted = fitted_ngram(read, window, order)
    return float(ngram.losses(predicted).mean())
