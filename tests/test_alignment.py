"""Word alignments from attention, against counting by hand and against loops."""

import numpy as np
import pytest
import torch
from conftest import PAIRS
from small_runs import TINY

from seq2seq.alignment import (
    STEPS,
    Head,
    alignment_error_rate,
    alignment_scores,
    attended_words,
    choose_heads,
    diagonal,
    read_heads,
    word_attention,
)
from seq2seq.data.gold import Gold
from seq2seq.data.words import Alignment
from seq2seq.errors import UserError
from seq2seq.inference.bundle import Preprocessing
from seq2seq.inference.search import SearchConfig
from seq2seq.inference.translator import Translator
from seq2seq.models import build_model
from seq2seq.models.transformer import Positions, TransformerConfig

SOURCES, TARGETS = map(list, zip(*PAIRS, strict=True))


@pytest.fixture
def translator(tiny_bundle):
    return Translator.from_bundle(tiny_bundle)


def gold(alignments, baseline=()):
    return Gold([Alignment.parse(text) for text in alignments], [], [Alignment.parse(text) for text in baseline])


def links_of(words):
    return " ".join(f"{i}-{j}" for j, i in enumerate(words))


# ---- The measure ----


def test_the_error_rate_is_that_of_och_and_ney_counted_by_hand():
    # A = {0-0, 1-1, 2-2}, S = {0-0, 1-2}, P adds 1-1: |A & S| = 1, |A & P| = 2, |A| + |S| = 5.
    assert alignment_error_rate([[(0, 0), (1, 1), (2, 2)]], [Alignment.parse("0-0 1p1 1-2")]) == pytest.approx(
        1 - 3 / 5
    )


def test_all_sure_links_and_any_possible_ones_are_no_error():
    alignment = Alignment.parse("0-0 1p1 2-2")
    assert alignment_error_rate([[(0, 0), (2, 2)]], [alignment]) == 0.0
    assert alignment_error_rate([[(0, 0), (1, 1), (2, 2)]], [alignment]) == 0.0
    assert alignment_error_rate([[]], [Alignment((), ())]) == 0.0


def test_sentences_count_by_their_links():
    golden = [Alignment.parse("0-0"), Alignment.parse("0-0 1-1 2-2")]
    assert alignment_error_rate([[(1, 0)], [(0, 0), (1, 1), (2, 2)]], golden) == pytest.approx(2 / 8)


@pytest.mark.parametrize(
    ("counts", "links"), [((3, 3), "0-0 1-1 2-2"), ((2, 4), "0-0 0-1 1-2 1-3"), ((5, 1), "0-0"), ((0, 3), "")]
)
def test_the_diagonal_goes_from_corner_to_corner(counts, links):
    assert sorted(diagonal(*counts)) == list(Alignment.parse(links).sure)


# ---- From pieces to words ----


def test_attention_is_summed_over_source_pieces_and_averaged_over_target_pieces():
    attention = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0.0, 0.0, 0.0, 1.0]])[None, None]
    words = word_attention(attention, src_pieces=[[0, 1], [2]], tgt_pieces=[[0, 1]])
    torch.testing.assert_close(words, torch.tensor([[[[(0.3 + 0.6) / 2, (0.3 + 0.1) / 2]]]]))


def test_pieces_of_a_source_that_was_cut_count_nothing():
    words = word_attention(torch.ones(1, 1, 1, 2), src_pieces=[[0, 1, 2], [3]], tgt_pieces=[[0]])
    assert words.flatten().tolist() == [2.0, 0.0]


def test_each_word_is_made_of_its_own_pieces(tiny_tokenizer):
    for text in (*SOURCES, *TARGETS, "  Zwei,  drei 漢字 – o'clock!"):
        pieces = tiny_tokenizer.pieces(tiny_tokenizer.encode(text))
        spelled = ["".join(pieces[n] for n in places).replace("·", "") for places in tiny_tokenizer.word_pieces(text)]
        assert spelled == ["▁" + word.strip(",.!–") for word in text.split() if word.strip(",.!–")]


def test_the_end_of_a_source_that_was_cut_counts_for_no_word(tiny_bundle):
    whole = Translator.from_bundle(tiny_bundle)
    tiny_bundle.preprocessing.max_source_tokens = len(whole.tokenizer.word_pieces("Two green")[0])
    found = attended_words(Translator.from_bundle(tiny_bundle), ["Two green"], ["Zwei grüne"])
    assert (found[0] == 0).all()  # the one word that is left, whatever EOS has
    tiny_bundle.preprocessing.max_source_tokens = 1
    words = attended_words(Translator.from_bundle(tiny_bundle), ["green Two"], ["Zwei"])[0]
    assert (words <= 0).all()


def test_a_target_longer_than_the_model_writes_is_aligned_as_far_as_it_goes(tiny_tokenizer):
    config = TransformerConfig(
        d_model=8, d_ff=8, num_heads=1, num_layers=2, positions=Positions.learned, max_positions=12
    )
    model = build_model(config, tiny_tokenizer.vocab_size).eval()
    preprocessing = Preprocessing(lowercase=True, max_source_tokens=64, src_lang="en", tgt_lang="de")
    words = attended_words(Translator(model, tiny_tokenizer, preprocessing, SearchConfig()), ["a b"], ["x " * 30])[0]
    assert words.shape == (2, 2, 1, 30)
    assert (words[..., -1] == -1).all()
    assert (words[..., 0] >= 0).all()


@pytest.mark.parametrize(
    "found", [[1], 0, "x", {"step_t": [0, 0]}, {step: [0] for step in STEPS}, {step: [0, -1] for step in STEPS}]
)
def test_heads_that_are_none_are_refused(found):
    with pytest.raises(UserError, match="attention_heads is not a layer and a head"):
        read_heads({"attention_heads": found})


def test_heads_that_the_model_lacks_are_refused(translator):
    heads = read_heads({"attention_heads": {step: [7, 0] for step in STEPS}})
    with pytest.raises(UserError, match="attention_heads is not a layer and a head"):
        alignment_scores(translator, SOURCES, TARGETS, gold(["0-0"] * 6, baseline=["0-0"] * 6), heads)


def test_attended_words_equal_the_sums_written_as_loops(translator):
    found = attended_words(translator, SOURCES, TARGETS)
    for n, (src, tgt) in enumerate(PAIRS):
        attention = next(iter(translator.attention([(src, tgt)])))
        src_pieces, tgt_pieces = (translator.tokenizer.word_pieces(text) for text in (src, tgt))
        for step in range(2):
            for layer, head in np.ndindex(attention.shape[:2]):
                for j, targets in enumerate(tgt_pieces):
                    sums = [
                        sum(float(attention[layer, head, t + step, s]) for t in targets for s in sources)
                        for sources in src_pieces
                    ]
                    assert found[n][step, layer, head, j] == int(np.argmax(sums))


def test_attention_does_not_depend_on_neighbours_and_sums_to_one(translator):
    together = list(translator.attention(PAIRS))
    for pair, attention in zip(PAIRS, together, strict=True):
        torch.testing.assert_close(next(iter(translator.attention([pair]))), attention)
        torch.testing.assert_close(attention.sum(dim=-1), torch.ones(attention.shape[:3]))
        assert attention.shape[2:] == tuple(len(translator.tokenizer.encode(text)) + 1 for text in pair[::-1])


# ---- Scores ----


def test_the_head_that_is_right_on_validation_data_is_chosen(translator):
    attended = attended_words(translator, SOURCES, TARGETS)
    for step, name in enumerate(STEPS):
        for head in range(2):
            right = gold([links_of(words[step, 0, head]) for words in attended], baseline=[""] * 6)
            assert choose_heads(translator, SOURCES, TARGETS, right)[name] == Head(0, head)
            scores = alignment_scores(translator, SOURCES, TARGETS, right, {s: Head(0, head) for s in STEPS})
            assert scores["aer"][name] == 0.0
            assert scores["heads"][name] == [0, head]


def test_the_baselines_stand_beside_the_error_rate(translator):
    right = gold(["0-0 1-1 2-2 3-3 4-4"] * 6, baseline=["0-1"] * 6)
    scores = alignment_scores(translator, SOURCES, TARGETS, right, None)
    assert "aer" not in scores
    expected = alignment_error_rate(
        [diagonal(len(src.split()), len(tgt.split())) for src, tgt in PAIRS], right.alignments
    )
    assert scores["baselines"] == {"diagonal": expected, "ibm_model_1": 1.0}


def test_a_model_without_attention_has_only_baselines(tiny_bundle):
    tiny_bundle.model = build_model(TINY["rnn"], tiny_bundle.tokenizer.vocab_size).eval()
    translator = Translator.from_bundle(tiny_bundle)
    right = gold(["0-0"] * 6, baseline=["0-0"] * 6)
    assert choose_heads(translator, SOURCES, TARGETS, right) is None
    assert set(alignment_scores(translator, SOURCES, TARGETS, right, None)) == {"baselines"}


def test_lines_without_words_are_aligned_with_nothing(translator):
    attended = attended_words(translator, ["", "...", "Two", ""], ["", "!", "", "Zwei."])
    assert [words.shape[-1] for words in attended][:3] == [0, 0, 0]
    scores = alignment_scores(
        translator, ["", "?"], ["", "Zwei."], gold(["", ""], baseline=["", ""]), {step: Head(0, 0) for step in STEPS}
    )
    assert set(scores["aer"]) == set(STEPS)
