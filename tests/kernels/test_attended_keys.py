"""Attention masks of a decoding step: the run of keys that one query reads."""

import pytest
import torch

from posenc.kernels.attention_mask import attended_keys


@pytest.mark.parametrize(
    ("allowed", "run", "whole"),
    [
        ([0, 1, 1, 1, 0], slice(1, 4), True),
        ([0, 1, 0, 1, 0], slice(1, 4), False),
        ([1, 1, 1, 1, 1], None, True),
        ([1, 0, 1, 1, 1], None, False),
    ],
)
def test_one_query_reads_the_run_of_keys_that_its_mask_allows(allowed, run, whole):
    mask = torch.tensor(allowed).bool()[None]
    part, keys = attended_keys(mask)
    assert keys == run
    assert (part is None) == whole
    if part is not None:
        assert torch.equal(part, mask if run is None else mask[:, run])


def test_masks_of_several_queries_samples_or_no_key_are_kept_whole():
    for mask in (torch.eye(3).bool(), torch.tensor([[[[True, False]]], [[[True, True]]]]), torch.zeros(1, 4).bool()):
        assert attended_keys(mask) == (mask, None)
