"""Attention, piece by piece: the three steps, the scores in historical order, and the windows.

The expected numbers come from loops over the papers' equations, one query and one key at a time.
"""

import math
from collections.abc import Callable

import pytest
import torch
from architectures import assert_close
from torch import Tensor, nn

from seq2seq.models.attention import (
    AdditiveScore,
    ConcatScore,
    DotScore,
    GeneralScore,
    KeysValues,
    LocationScore,
    MultiHeadAttention,
    PredictedCenters,
    RelativePositions,
    attend,
    causal_mask,
    gaussian,
    masked_softmax,
    monotonic_centers,
    outside_window,
    scaled_dot_scores,
)

SENTENCES, QUERIES, KEYS = 2, 3, 5


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


def random(*shape: int) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def rows(*numbers: list[float]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


# ---- The three steps: score, softmax, weighted sum ----

# The words The, cat, sat, on with d_model = 4, and projections to d_k = d_v = 3.
X = rows([0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.8, 0.2], [0.3, 0.7, 0.2, 0.6], [0.4, 0.3, 0.5, 0.1])
W_Q = rows([0.1, 0, 0.2], [0, 0.3, 0.1], [0.2, 0.1, 0], [0.1, 0.2, 0.3])
W_K = rows([0.3, 0.1, 0], [0.1, 0.2, 0.1], [0, 0.1, 0.3], [0.2, 0, 0.2])
W_V = rows([0.2, 0.1, 0.3], [0.1, 0.3, 0.1], [0.3, 0, 0.2], [0, 0.2, 0.1])
SAT = 2


def test_the_worked_example_comes_out_to_the_last_printed_digit():
    scores = scaled_dot_scores(X @ W_Q, X @ W_K)
    context, weights = attend(scores, X @ W_V)
    unscaled = [0.1038, 0.1684, 0.1804, 0.1366]
    assert (scores[SAT] * math.sqrt(3)).tolist() == pytest.approx(unscaled, abs=1e-10)
    assert weights[SAT].tolist() == pytest.approx([0.243764, 0.253027, 0.254786, 0.248424], abs=6e-7)
    assert context[SAT].tolist() == pytest.approx([0.233248, 0.195914, 0.253428], abs=6e-7)


def test_in_the_worked_example_sat_attends_almost_evenly_and_most_to_itself():
    _, weights = attend(scaled_dot_scores(X @ W_Q, X @ W_K), X @ W_V)
    assert weights[SAT].argmax() == SAT
    assert weights[SAT].max() - weights[SAT].min() < 0.02


@pytest.mark.parametrize(
    ("scores", "weights"),
    [
        ([0.5, 0.3, 0.1, 0.2], [0.3096, 0.2535, 0.2075, 0.2294]),
        ([5.0, 3.0, 1.0, 2.0], [0.831, 0.112, 0.015, 0.041]),  # ten times the scores: peaked, not yet saturated
    ],
)
def test_softmax_numbers_that_are_often_printed_wrongly(scores, weights):
    assert masked_softmax(rows(scores))[0].tolist() == pytest.approx(weights, abs=6e-4)


@pytest.mark.parametrize("visible", [1.0, -1e12])
def test_a_hidden_key_gets_exactly_no_weight_however_much_larger_its_score(visible):
    scores, hidden = rows([visible, 1e6, visible]), torch.tensor([[False, True, False]])
    assert masked_softmax(scores, hidden).tolist() == [[0.5, 0.0, 0.5]]
    context, _ = attend(scores, rows([2.0], [1e9], [4.0]), hidden)
    assert context.tolist() == [[3.0]]


def test_the_context_is_the_sum_of_the_values_by_weight():
    scores, values = random(SENTENCES, QUERIES, KEYS), random(SENTENCES, KEYS, 4)
    context, weights = attend(scores, values)
    for n in range(SENTENCES):
        for i in range(QUERIES):
            total = sum(math.exp(scores[n, i, j]) for j in range(KEYS))
            expected = torch.zeros(4, dtype=torch.float64)
            for j in range(KEYS):
                assert weights[n, i, j].item() == pytest.approx(math.exp(scores[n, i, j]) / total, abs=1e-12)
                expected += math.exp(scores[n, i, j]) / total * values[n, j]
            assert_close(context[n, i], expected)


# ---- The scores ----


def assert_scores(
    actual: Tensor, score_of: Callable[[Tensor, Tensor], Tensor], queries: Tensor, values: Tensor
) -> None:
    """Hold every score against `score_of(query, value)`, one pair of vectors at a time."""
    assert actual.shape == (SENTENCES, QUERIES, KEYS)
    for n in range(SENTENCES):
        for i in range(QUERIES):
            for j in range(KEYS):
                assert actual[n, i, j].item() == pytest.approx(float(score_of(queries[n, i], values[n, j])), abs=1e-10)


def test_additive_score_is_v_tanh_of_w_query_plus_u_key():
    score = AdditiveScore(query_size=4, value_size=6, attention_size=3).double()
    queries, values = random(SENTENCES, QUERIES, 4), random(SENTENCES, KEYS, 6)
    w, u, v = score.query.weight, score.key.weight, score.energy.weight[0]
    actual = score(queries, score.keys(values))
    assert_scores(actual, lambda s, h: v @ torch.tanh(w @ s + u @ h), queries, values)


def test_concat_score_is_v_tanh_of_one_matrix_on_query_and_key_stacked():
    score = ConcatScore(query_size=4, value_size=6, attention_size=3).double()
    queries, values = random(SENTENCES, QUERIES, 4), random(SENTENCES, KEYS, 6)
    w, v = torch.cat([score.query.weight, score.key.weight], dim=1), score.energy.weight[0]
    actual = score(queries, score.keys(values))
    assert_scores(actual, lambda h_t, h_s: v @ torch.tanh(w @ torch.cat([h_t, h_s])), queries, values)


def test_dot_score_is_query_times_key():
    score = DotScore()
    queries, values = random(SENTENCES, QUERIES, 6), random(SENTENCES, KEYS, 6)
    assert_scores(score(queries, score.keys(values)), lambda h_t, h_s: h_t @ h_s, queries, values)


def test_general_score_is_query_times_w_key():
    score = GeneralScore(query_size=4, value_size=6).double()
    queries, values = random(SENTENCES, QUERIES, 4), random(SENTENCES, KEYS, 6)
    w = score.key.weight
    assert_scores(score(queries, score.keys(values)), lambda h_t, h_s: h_t @ w @ h_s, queries, values)


def test_location_score_reads_the_query_and_the_place_of_the_key_alone():
    score = LocationScore(query_size=4, max_source_length=KEYS + 2).double()
    queries, values = random(SENTENCES, QUERIES, 4), random(SENTENCES, KEYS, 6)
    actual = score(queries, score.keys(values))
    for j in range(KEYS):
        assert_close(actual[:, :, j], (queries * score.positions.weight[j]).sum(dim=-1))


def test_scaled_dot_scores_are_of_unit_variance_for_any_size():
    for size in (4, 64, 1024):
        scores = scaled_dot_scores(random(200, size), random(201, size))
        assert scores.std().item() == pytest.approx(1.0, abs=0.1)


def test_scaled_dot_scores_swap_the_last_two_axes_only():
    queries, keys = random(2, 3, QUERIES, 4), random(2, 3, KEYS, 4)  # (batch, heads, length, d_k)
    scores = scaled_dot_scores(queries, keys)
    for b in range(2):
        for h in range(3):
            for i in range(QUERIES):
                for j in range(KEYS):
                    assert_close(scores[b, h, i, j], queries[b, h, i] @ keys[b, h, j] / math.sqrt(4))


# ---- The windows of local attention ----


def test_the_window_of_a_center_p_is_from_p_minus_d_to_p_plus_d():
    centers = rows([0.0, 3.0, 4.5])
    seen = [[s for s in range(6) if not out[s]] for out in outside_window(centers, half_width=2, length=6)[0]]
    assert seen == [[0, 1, 2], [1, 2, 3, 4, 5], [3, 4, 5]]


def test_local_m_moves_one_word_a_step_and_stays_on_the_last_of_a_short_source():
    steps = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 3]])
    centers = monotonic_centers(steps, torch.tensor([9, 2]))
    assert centers.tolist() == [[0, 1, 2, 3], [0, 1, 1, 1]]


def test_local_p_predicts_its_center_as_a_fraction_of_the_sentence_itself():
    predict = PredictedCenters(query_size=4).double()
    queries, lengths = random(SENTENCES, QUERIES, 4), [7, 3]
    centers = predict(queries, torch.tensor(lengths))
    w, v = predict.hidden.weight, predict.position.weight[0]
    for n, length in enumerate(lengths):
        for i in range(QUERIES):
            fraction = 1 / (1 + math.exp(-(v @ torch.tanh(w @ queries[n, i]))))
            assert centers[n, i].item() == pytest.approx(length * fraction, abs=1e-10)


def test_local_p_weighs_by_a_gaussian_of_sigma_half_the_half_width():
    centers, half_width = rows([0.4, 2.0, 3.7]), 3
    sigma = half_width / 2
    factors = gaussian(centers, half_width, length=6)
    for i, p in enumerate([0.4, 2.0, 3.7]):
        for s in range(6):
            assert factors[0, i, s].item() == pytest.approx(math.exp(-((s - p) ** 2) / (2 * sigma**2)), abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_even_one_word_wide_windows_on_long_sources_always_hold_a_word(dtype):
    predict = PredictedCenters(query_size=2).to(dtype)
    nn.init.constant_(predict.hidden.weight, 5.0)
    nn.init.constant_(predict.position.weight, 5.0)
    for length in (1, 2, 257, 259, 383, 511):
        lengths = torch.tensor([length])
        for sign in (-1, 1):  # far to the left, far to the right
            queries = torch.full((1, 1, 2), sign, dtype=dtype)
            centers = predict(queries, lengths)
            assert not outside_window(centers, half_width=1, length=length).all()
        last = monotonic_centers(torch.tensor([[length - 1]]), lengths)
        window = (~outside_window(last, half_width=1, length=length))[0, 0].nonzero().flatten().tolist()
        assert window == list(range(max(0, length - 2), length))


# ---- Multi-head attention ----


def test_the_causal_mask_hides_the_future_and_only_the_future():
    for steps, past in [(2, 0), (4, 0), (2, 3), (3, 1)]:
        mask = causal_mask(steps, past, torch.device("cpu"))
        assert mask.tolist() == [[j > past + i for j in range(past + steps)] for i in range(steps)]
    assert causal_mask(1, 5, torch.device("cpu")) is None


@pytest.mark.parametrize("past", [0, 2])
def test_relative_positions_score_the_clipped_distance_from_query_to_key(past):
    heads, size, max_distance = 2, 4, 2
    relative = RelativePositions(size, max_distance).double()
    queries, length = random(SENTENCES, heads, QUERIES, size), past + QUERIES
    actual = relative(queries, length)
    for t in range(QUERIES):
        for j in range(length):
            i = past + t
            a_ij = relative.vectors[max_distance + max(-max_distance, min(max_distance, j - i))]
            assert_close(actual[:, :, t, j], queries[:, :, t] @ a_ij / math.sqrt(size))


@pytest.mark.parametrize("max_distance", [None, 2])
@pytest.mark.parametrize("hide", ["nothing", "padding", "future"])
def test_the_fused_kernel_and_the_open_formula_agree(max_distance, hide):
    layer = MultiHeadAttention(8, 2, max_distance).double()
    x = random(SENTENCES, KEYS, 8)
    padding = torch.arange(KEYS) >= torch.tensor([[KEYS], [2]])
    masks = {"nothing": None, "padding": padding[:, None, None], "future": causal_mask(KEYS, 0, x.device)}
    source = layer.keys_values(x)
    open_formula, weights = layer(x, source, masks[hide], need_weights=True)
    fused, nothing = layer(x, source, masks[hide])
    assert_close(fused, open_formula)
    assert weights is not None
    assert nothing is None


def test_the_beams_of_a_sentence_read_its_own_keys():
    layer = MultiHeadAttention(8, 2).double()
    beams = 3
    x, source = random(SENTENCES * beams, QUERIES, 8), layer.keys_values(random(SENTENCES, KEYS, 8))
    actual, weights = layer(x, source, need_weights=True)
    for row in range(SENTENCES * beams):
        this, sentence = slice(row, row + 1), slice(row // beams, row // beams + 1)
        alone = KeysValues(source.keys[sentence], source.values[sentence])
        expected, expected_weights = layer(x[this], alone, need_weights=True)
        assert_close(actual[this], expected)
        assert_close(weights[this], expected_weights)
