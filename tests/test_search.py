"""Search against brute force and by hand, on a vocabulary small enough to know every answer."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from toy import bigram_model, sources, toy_model

from seq2seq.data.tokenizer import BOS, EOS, PAD, UNK
from seq2seq.errors import UserError
from seq2seq.inference.score import score
from seq2seq.inference.search import Hypothesis, SearchConfig, _best_continuations, beam_search
from seq2seq.models import ARCHITECTURES, build_model
from seq2seq.models.interface import Seq2Seq

A, B, C = 4, 5, 6
WORDS = [UNK, A, B]  # what a translation can hold when V = 6
seeds = st.integers(0, 2**32)


def fixed_limit(limit: int, beam_size: int = 5, length_penalty: float = 1.0) -> SearchConfig:
    return SearchConfig(beam_size, length_penalty, max_length_ratio=0.0, max_length_extra=limit)


def brute_force(model: Seq2Seq, src: Tensor, length: int, limit: int, length_penalty: float) -> list[Hypothesis]:
    """Every translation of at most `limit` tokens, EOS included, best first; none is empty."""
    hypotheses = []
    for words in itertools.chain.from_iterable(itertools.product(WORDS, repeat=n) for n in range(1, limit)):
        tgt_in = torch.tensor([[BOS, *words]])
        logits = model(src[None, :length], torch.tensor([length]), tgt_in).logits[0]
        log_probs = logits.log_softmax(dim=-1)
        log_prob = sum(log_probs[t, token].item() for t, token in enumerate([*words, EOS]))
        score = log_prob / max(1, len(words)) ** length_penalty
        hypotheses.append(Hypothesis(list(words), log_prob, score, cut=False))
    return sorted(hypotheses, key=lambda h: -h.score)


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [h.ids for h in found] == [h.ids for h in expected]
    assert [h.cut for h in found] == [h.cut for h in expected]
    for name in ("log_prob", "score"):
        assert [getattr(h, name) for h in found] == pytest.approx(
            [getattr(h, name) for h in expected], abs=1e-10, rel=0
        )


# ---- Against every translation there is ----


@given(seed=seeds, length_penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]))
@settings(max_examples=8, deadline=None)
def test_a_beam_as_wide_as_all_prefixes_finds_the_n_best_of_brute_force(seed, length_penalty):
    model, (src, src_lengths) = toy_model(seed), sources(5, 2, seed=seed)
    beams = 1 + 3 + 9 + 27  # all prefixes within the limit
    found = beam_search(model, src, src_lengths, fixed_limit(3, beams, length_penalty), n_best=beams)
    for n in range(2):
        assert_same(found[n], brute_force(model, src[n], int(src_lengths[n]), 3, length_penalty))


@given(seed=seeds, beam_size=st.integers(1, 6))
@settings(max_examples=15, deadline=None)
def test_no_beam_scores_above_brute_force(seed, beam_size):
    model, (src, src_lengths) = toy_model(seed), sources(4, seed=seed)
    best = brute_force(model, src[0], 4, 4, length_penalty=1.0)[0]
    found = beam_search(model, src, src_lengths, fixed_limit(4, beam_size))[0][0]
    assert found.cut or found.score <= best.score + 1e-10


# ---- By hand ----


def test_an_eos_outside_the_first_k_does_not_finish_a_hypothesis():
    table = {BOS: {C: 1.0}, C: {A: 0.4, B: 0.35, EOS: 0.25}, A: {EOS: 1.0}, B: {EOS: 1.0}}
    found = beam_search(bigram_model(table, 7), *sources(3), fixed_limit(9, beam_size=2, length_penalty=0.0), n_best=2)
    assert [h.ids for h in found[0]] == [[C, A], [C, B]]
    assert [h.log_prob for h in found[0]] == pytest.approx([math.log(0.4), math.log(0.35)])


def test_a_finished_hypothesis_leaves_its_place_in_the_beam_to_the_next_best():
    table = {BOS: {C: 1.0}, C: {EOS: 0.6, A: 0.3, B: 0.1}, A: {A: 0.9, EOS: 0.1}, B: {EOS: 1.0}}
    found = beam_search(bigram_model(table, 7), *sources(3), fixed_limit(9, beam_size=2, length_penalty=0.0), n_best=2)
    assert [h.ids for h in found[0]] == [[C], [C, B]]  # with one place lost, B would have been out of sight


def test_a_sentence_ends_when_k_hypotheses_have_finished():
    table = {BOS: {C: 1.0}, C: {EOS: 0.5, A: 0.3, B: 0.2}, A: {EOS: 1.0}, B: {B: 0.99, EOS: 0.01}}
    found = beam_search(bigram_model(table, 7), *sources(3), fixed_limit(50, beam_size=2), n_best=2)[0]
    assert [h.ids for h in found] == [[C, A], [C]]  # twenty B would have scored better, had anybody gone on to look


def test_the_length_penalty_decides_between_short_and_long():
    model = bigram_model({BOS: {A: 0.5, B: 0.5}, A: {EOS: 1.0}, B: {C: 0.9}, C: {EOS: 1.0}}, 7)
    short, long = (
        beam_search(model, *sources(3), fixed_limit(9, 2, length_penalty))[0][0].ids for length_penalty in (0.0, 1.0)
    )
    assert short == [A]
    assert long == [B, C]


@pytest.mark.parametrize("beam_size", [1, 2, 5])
def test_no_translation_is_empty_and_the_others_keep_their_probabilities(beam_size):
    model = bigram_model({BOS: {EOS: 0.6, A: 0.4}, A: {EOS: 1.0}}, 6)
    (found,) = beam_search(model, *sources(3), fixed_limit(9, beam_size), n_best=beam_size)[0]
    assert (found.ids, found.log_prob, found.cut) == ([A], pytest.approx(math.log(0.4)), False)


def test_a_model_that_can_say_nothing_says_nothing():
    model = bigram_model({BOS: {EOS: 1.0}}, 6)
    found = beam_search(model, *sources(3, 2), fixed_limit(9, beam_size=2), n_best=2)
    assert [[h.ids for h in hypotheses] for hypotheses in found] == [[[]], [[]]]
    assert found[0][0].score == pytest.approx(0.0)


def test_neither_pad_nor_bos_is_ever_a_word():
    model = bigram_model({last: {0: 0.5, BOS: 0.4, A: 0.07, EOS: 0.03} for last in range(6)}, 6)
    for hypothesis in beam_search(model, *sources(3), fixed_limit(5, beam_size=4), n_best=4)[0]:
        assert not {0, BOS, EOS} & set(hypothesis.ids)


def test_a_vocabulary_smaller_than_the_beam_is_enough():
    model, (src, src_lengths) = toy_model(1, vocab_size=5), sources(3, vocab_size=5)
    found = beam_search(model, src, src_lengths, fixed_limit(4, beam_size=31), n_best=31)[0]
    assert len({tuple(h.ids) for h in found}) == len(found) == 14  # 2 + 4 + 8, each once


@pytest.mark.parametrize("may_end", [True, False])
@pytest.mark.parametrize("vocab_size", [8, 127, 32 * 12, 2 * 149, 3001, 8000])
def test_the_best_by_columns_are_the_best_of_all(vocab_size, may_end):
    generator = torch.Generator().manual_seed(vocab_size)
    log_probs = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    logits = torch.randn(12, vocab_size, generator=generator, dtype=torch.float64)
    best = _best_continuations(log_probs, logits.clone(), 8, may_end=may_end)
    everything = logits.log_softmax(dim=1).view(3, 4, -1) + log_probs[:, :, None]
    everything[:, :, [PAD, BOS] if may_end else [PAD, BOS, EOS]] = -math.inf
    expected, places = everything.flatten(1).sort(dim=1, descending=True)
    torch.testing.assert_close(best.log_probs, expected[:, :8], rtol=0, atol=1e-12)
    assert (best.parents * vocab_size + best.tokens).equal(places[:, :8])


# ---- What follows ----


@given(seed=seeds)
@settings(max_examples=20, deadline=None)
def test_beam_1_is_greedy(seed):
    model, (src, src_lengths) = toy_model(seed, vocab_size=9), sources(4, vocab_size=9, seed=seed)
    memory = model.encode(src, src_lengths)
    state, last, ids = model.init_state(memory), BOS, []
    while last != EOS and len(ids) < 12:
        output = model.decode(torch.tensor([[last]]), memory, state)
        state, logits = output.state, output.logits[0, -1]
        words = set(range(9)) - {PAD, BOS} - (set() if ids else {EOS})
        last = max(words, key=lambda token: logits[token])
        ids.append(last)
    (found,) = beam_search(model, src, src_lengths, fixed_limit(12, beam_size=1))[0]
    assert found.ids == (ids[:-1] if last == EOS else ids)
    assert found.cut == (last != EOS)


@given(seed=seeds, length_penalty=st.floats(0, 2))
@settings(max_examples=10, deadline=None)
def test_the_best_does_not_depend_on_how_many_are_asked_for(seed, length_penalty):
    model, source = toy_model(seed, vocab_size=9), sources(4, 7, vocab_size=9, seed=seed)
    config = fixed_limit(8, beam_size=4, length_penalty=length_penalty)
    four = beam_search(model, *source, config, n_best=4)
    for n_best in (1, 2, 3):
        assert beam_search(model, *source, config, n_best=n_best) == [found[:n_best] for found in four]
    for found in four:
        assert [h.score for h in found] == sorted((h.score for h in found), reverse=True)


def random_model(architecture: str, seed: int) -> Seq2Seq:
    torch.manual_seed(seed)
    model = build_model(ARCHITECTURES[architecture].config(), 12).double().eval()
    for parameter in model.parameters():  # sharper than fresh weights are
        torch.nn.init.normal_(parameter, std=0.25)
    return model


@pytest.mark.parametrize("architecture", ["toy", *ARCHITECTURES])
def test_batch_size_order_and_neighbours_change_nothing(architecture):
    lengths = [7, 2, 11, 1, 5, 5, 9, 3]
    model = toy_model(3, vocab_size=12) if architecture == "toy" else random_model(architecture, 3)
    src, src_lengths = sources(*lengths, vocab_size=12)
    config = SearchConfig(beam_size=4, max_length_ratio=1.5, max_length_extra=2)
    alone = [
        beam_search(model, src[n : n + 1, :length], src_lengths[n : n + 1], config, n_best=4)[0]
        for n, length in enumerate(lengths)
    ]
    together = beam_search(model, src, src_lengths, config, n_best=4)
    order = torch.tensor([5, 2, 7, 0, 3, 1, 6, 4])
    shuffled = beam_search(model, src[order], src_lengths[order], config, n_best=4)
    for n in range(len(lengths)):
        assert_same(together[n], alone[n])
        assert_same(shuffled[order.tolist().index(n)], alone[n])


@pytest.mark.parametrize("architecture", ["toy", *ARCHITECTURES])
def test_what_search_reports_is_what_scoring_says(architecture):
    model = toy_model(7, vocab_size=12) if architecture == "toy" else random_model(architecture, 7)
    src, src_lengths = sources(6, 1, 9, 4, vocab_size=12)
    config = SearchConfig(beam_size=3, length_penalty=0.7, max_length_ratio=1.0, max_length_extra=1)
    found = beam_search(model, src, src_lengths, config, n_best=3)
    rows = [n for n, hypotheses in enumerate(found) for _ in hypotheses]
    hypotheses = [h for hypotheses in found for h in hypotheses]
    rescored = score(
        model,
        src[rows],
        src_lengths[rows],
        [h.ids for h in hypotheses],
        length_penalty=0.7,
        cut=[h.cut for h in hypotheses],
    )
    for hypothesis, again in zip(hypotheses, rescored, strict=True):
        assert again == pytest.approx((hypothesis.log_prob, hypothesis.score), abs=1e-10, rel=0)


# ---- Limits ----


def endless_model() -> Seq2Seq:
    return bigram_model({last: {A: 0.7, B: 0.3} for last in (BOS, A, B)}, 6)


def test_the_length_limit_is_a_sentence_s_own():
    config = SearchConfig(beam_size=2, max_length_ratio=1.5, max_length_extra=2)
    found = beam_search(endless_model(), *sources(1, 9, 4), config)
    assert [len(best.ids) for (best,) in found] == [4, 16, 8]  # ceil(1.5 * S) + 2


def test_open_hypotheses_come_back_flagged_only_where_none_finished():
    found = beam_search(endless_model(), *sources(3), fixed_limit(4, beam_size=2), n_best=2)[0]
    assert found[0].ids == [A, A, A, A]
    assert [h.cut for h in found] == [True, True]
    model = bigram_model({BOS: {A: 0.9, EOS: 0.1}, A: {A: 0.9, EOS: 0.1}}, 6)
    found = beam_search(model, *sources(3), fixed_limit(4, beam_size=9), n_best=9)[0]
    assert [(h.ids, h.cut) for h in found] == [([A] * n, False) for n in (3, 2, 1)]


def test_what_has_probability_zero_is_no_translation():
    model = bigram_model({last: {A: 1.0} for last in (BOS, A)}, 6)
    (found,) = beam_search(model, *sources(3), fixed_limit(4, beam_size=3), n_best=3)
    assert [h.ids for h in found] == [[A] * 4]


def test_no_translation_is_longer_than_the_model_can_write():
    model = endless_model()
    model.decoder.max_target_length = 5
    found = beam_search(model, *sources(3, 30), SearchConfig(beam_size=2))
    assert [len(best.ids) for (best,) in found] == [5, 5]


def test_finished_sentences_leave_the_batch():
    model, rows = endless_model(), []
    model.decoder.register_forward_pre_hook(lambda _, args: rows.append((len(args[0]), len(args[1].context))))
    config = SearchConfig(beam_size=2, max_length_ratio=1.0, max_length_extra=1)
    beam_search(model, *sources(1, 3, 2), config)
    assert rows == [(3, 3), (6, 3), (4, 2), (2, 1)]  # one beam at first: they would all begin alike


# ---- Errors ----


@pytest.mark.parametrize("n_best", [0, 6])
def test_more_translations_than_the_beam_holds_are_refused(n_best):
    with pytest.raises(UserError, match=f"n_best={n_best} must be between 1 and the beam size, 5"):
        beam_search(toy_model(0), *sources(3), SearchConfig(), n_best=n_best)


@pytest.mark.parametrize(("beam_size", "step"), [(1, 3), (3, 2)])  # wider, and one beam of two has it
def test_nan_names_the_step(beam_size, step):
    model = bigram_model({BOS: {A: 0.9, B: 0.1}, A: {B: 0.9, A: 0.1}, B: {EOS: 0.6, A: 0.4}}, 6)
    model.decoder.logits[B, C - 1] = math.nan
    with pytest.raises(UserError, match=f"NaN at search step {step}"):
        beam_search(model, *sources(3), SearchConfig(beam_size=beam_size))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beam_size": 0}, "search.beam_size=0 must be at least 1"),
        ({"length_penalty": -0.5}, "search.length_penalty=-0.5 must be"),
        ({"length_penalty": math.nan}, "search.length_penalty=nan must be"),
        ({"max_length_ratio": math.inf}, "search.max_length_ratio=inf must be"),
        ({"max_length_extra": 0}, "search.max_length_extra=0 must be at least 1"),
    ],
)
def test_impossible_search_settings_are_refused(change, message):
    with pytest.raises(UserError, match=message):
        SearchConfig(**change)
