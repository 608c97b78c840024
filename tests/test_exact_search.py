import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_search import A, B, brute_force, fixed_limit
from toy import bigram_model, sources, toy_model

from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.errors import UserError
from seq2seq.inference.exact_search import exact_search
from seq2seq.inference.score import score
from seq2seq.inference.search import Hypothesis, beam_search
from seq2seq.models import build_model
from seq2seq.models.transformer import TransformerConfig

seeds = st.integers(0, 2**32)
MANY = 10**6


def most_probable(model, src, limit):
    """Of all translations within the limit, the empty one among them, which no beam returns."""
    length = src.shape[1]
    empty = score(model, src, torch.tensor([length]), [[]])[0].log_prob
    others = brute_force(model, src[0], length, limit, length_penalty=0.0)
    return max([Hypothesis([], empty, empty, cut=False), *others], key=lambda hypothesis: hypothesis.log_prob)


@given(seed=seeds, limit=st.integers(1, 5))
@settings(max_examples=12, deadline=None)
def test_it_finds_the_most_probable_of_all_translations(seed, limit):
    model, (src, _) = toy_model(seed), sources(4, seed=seed)
    expected = most_probable(model, src, limit)
    found = exact_search(model, src, fixed_limit(limit), bound=-math.inf, max_nodes=MANY)
    assert (found.ids, found.is_proved) == (expected.ids, True)
    assert found.log_prob == pytest.approx(expected.log_prob, abs=1e-10)


@given(seed=seeds)
@settings(max_examples=8, deadline=None)
def test_it_agrees_with_brute_force_on_a_model_whose_state_grows_with_each_token(seed):
    torch.manual_seed(seed)
    config = TransformerConfig(d_model=8, d_ff=8, num_heads=2, num_layers=1, dropout=0.0)
    model = build_model(config, 6).double().eval()
    for parameter in model.parameters():
        parameter.data.mul_(3)
    src, _ = sources(4, seed=seed)
    expected = most_probable(model, src, 4)
    found = exact_search(model, src, fixed_limit(4), bound=-math.inf, max_nodes=MANY)
    assert found.ids == expected.ids
    assert found.log_prob == pytest.approx(expected.log_prob, abs=1e-10)


@given(seed=seeds, beam_size=st.integers(1, 3))
@settings(max_examples=8, deadline=None)
def test_beginning_with_what_a_beam_found_it_returns_the_same_or_says_that_nothing_is_better(seed, beam_size):
    model, (src, src_lengths) = toy_model(seed), sources(4, seed=seed)
    best = most_probable(model, src, 4)
    beam = beam_search(model, src, src_lengths, fixed_limit(4, beam_size, 0.0))[0][0]
    bound = -math.inf if beam.cut else beam.log_prob - 1e-12
    found = exact_search(model, src, fixed_limit(4), bound=bound, max_nodes=MANY)
    assert found.ids == best.ids
    nothing = exact_search(model, src, fixed_limit(4), bound=best.log_prob + 1e-12, max_nodes=MANY)
    assert (nothing.ids, nothing.is_proved) == (None, True)


def test_a_good_bound_saves_nodes():
    without = with_bound = 0
    for seed in range(8):
        model, (src, _) = toy_model(seed), sources(4, seed=seed)
        first = exact_search(model, src, fixed_limit(5), bound=-math.inf, max_nodes=MANY)
        second = exact_search(model, src, fixed_limit(5), bound=first.log_prob - 1e-9, max_nodes=MANY)
        assert second.ids == first.ids
        without, with_bound = without + first.nodes, with_bound + second.nodes
    assert with_bound < without


def test_a_translation_that_a_beam_overlooks_is_found_by_hand():
    # greedy: A A with 0.6 * 0.5 * 0.5; the best: B with 0.4 * 1.
    model = bigram_model({BOS: {A: 0.6, B: 0.4}, A: {A: 0.5, EOS: 0.5}, B: {EOS: 1.0}}, 6)
    src, src_lengths = sources(3)
    assert beam_search(model, src, src_lengths, fixed_limit(9, 1, 0.0))[0][0].ids != [B]
    found = exact_search(model, src, fixed_limit(9), bound=-math.inf, max_nodes=MANY)
    assert (found.ids, found.log_prob) == ([B], pytest.approx(math.log(0.4)))


def test_the_best_may_begin_with_the_tenth_best_word():
    words = dict.fromkeys(range(4, 13), 0.102)  # nine, each then goes on or ends
    model = bigram_model(
        {BOS: {**words, 13: 0.082}, **{word: {EOS: 0.5, 4: 0.5} for word in words}, 13: {EOS: 1.0}}, 14
    )
    found = exact_search(model, sources(3)[0], fixed_limit(5), bound=-math.inf, max_nodes=MANY)
    assert (found.ids, found.log_prob) == ([13], pytest.approx(math.log(0.082)))


def test_the_empty_translation_can_be_the_best():
    model = bigram_model({BOS: {EOS: 0.4, A: 0.6}, A: {A: 0.5, EOS: 0.5}}, 6)
    found = exact_search(model, sources(3)[0], fixed_limit(9), bound=-math.inf, max_nodes=MANY)
    assert (found.ids, found.log_prob) == ([], pytest.approx(math.log(0.4)))


def test_a_limit_of_nodes_ends_the_search_unproved():
    # BOS, then A and B: now B EOS is known, with 0.4 * 0.5, but A A with 0.6 * 0.9 has not been read.
    model = bigram_model({BOS: {A: 0.6, B: 0.4}, A: {A: 0.9, EOS: 0.1}, B: {B: 0.5, EOS: 0.5}}, 6)
    found = exact_search(model, sources(3)[0], fixed_limit(6), bound=-math.inf, max_nodes=3)
    assert (found.ids, found.nodes, found.is_proved) == ([B], 3, False)
    proved = exact_search(model, sources(3)[0], fixed_limit(6), bound=-math.inf, max_nodes=MANY)
    assert (proved.ids, proved.nodes, proved.is_proved) == ([B], 7, True)  # and A A to A A A A A, no longer


def test_nan_is_named():
    model, (src, _) = toy_model(0), sources(4)
    model.decoder.output.bias.data.fill_(math.nan)
    with pytest.raises(UserError, match="NaN in exact search"):
        exact_search(model, src, fixed_limit(4), bound=-math.inf, max_nodes=MANY)
