import math

import pytest
import torch
from toy import sources, toy_model

from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.inference.score import length_normalised, log_softmax, score

TARGETS = [[4, 5, 5, 4], [], [5], [4, 4, 5, 5, 4, 5, 1]]


def by_hand(model, src, ids, cut=False):
    """log p(y | x), a token and a forward pass at a time."""
    total, said = 0.0, [*ids] if cut else [*ids, EOS]
    for t, token in enumerate(said):
        logits = model(src[None], torch.tensor([len(src)]), torch.tensor([[BOS, *said[:t]]])).logits[0, t]
        total += (logits[token] - logits.logsumexp(dim=0)).item()
    return total


@pytest.mark.parametrize("cut", [False, True])
def test_the_log_prob_is_the_sum_over_tokens_with_eos_unless_cut(cut):
    model, (src, src_lengths) = toy_model(11), sources(5, 1, 3, 4)
    found = score(model, src, src_lengths, TARGETS, cut=[cut] * 4)
    for n, length in enumerate(src_lengths):
        assert found[n].log_prob == pytest.approx(by_hand(model, src[n, :length], TARGETS[n], cut), abs=1e-10, rel=0)


def test_neighbours_change_no_score():
    model, (src, src_lengths) = toy_model(12), sources(5, 1, 3, 4)
    together = score(model, src, src_lengths, TARGETS)
    for n, length in enumerate(src_lengths):
        (alone,) = score(model, src[n : n + 1, :length], src_lengths[n : n + 1], [TARGETS[n]])
        assert alone == pytest.approx(together[n], abs=1e-10, rel=0)


def test_the_score_is_the_log_prob_by_length():
    model, (src, src_lengths) = toy_model(13), sources(5, 1, 3, 4)
    for log_prob, normalised in score(model, src, src_lengths, TARGETS, length_penalty=0.0):
        assert normalised == log_prob
    lengths = [4, 1, 1, 7]  # of an empty target too, at least 1
    for length, (log_prob, normalised) in zip(
        lengths, score(model, src, src_lengths, TARGETS, length_penalty=1.0), strict=True
    ):
        assert normalised == pytest.approx(log_prob / length)
    assert length_normalised(-8.0, 16, 0.5) == -2.0


def test_half_precision_logits_are_normalised_in_float32():
    logits = torch.randn(3, 8000).to(torch.bfloat16)
    found = log_softmax(logits)
    assert found.dtype == torch.float32
    assert found.exp().sum(dim=1).tolist() == pytest.approx([1.0] * 3, abs=1e-4)
    assert log_softmax(torch.zeros(2, dtype=torch.float64)).tolist() == pytest.approx([-math.log(2)] * 2, abs=1e-15)
