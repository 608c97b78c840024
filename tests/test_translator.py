import io
import logging
import math
import random
import threading
import time
from collections import Counter

import pytest
import torch
from conftest import PAIRS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toy import bigram_model

from seq2seq.data.corpus import read_lines
from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.errors import UserError
from seq2seq.inference.translator import Translator, is_looping

SOURCES, TARGETS = map(list, zip(*PAIRS, strict=True))


@pytest.fixture
def translator(tiny_bundle):
    return Translator.from_bundle(tiny_bundle)


def texts(translator, lines, **options):
    return [translation.text for translation in translator.translate(lines, **options)]


# ---- Lines ----


def test_a_trained_model_translates_in_input_order(translator):
    assert texts(translator, SOURCES) == TARGETS
    assert texts(translator, SOURCES[::-1]) == TARGETS[::-1]


def test_blank_lines_stay_blank_and_are_never_searched(translator):
    lines = ["Hello.", "", "   ", "\t", "\u00a0\u200b", SOURCES[0]]
    found = list(translator.translate(lines))
    assert [translation.text for translation in found[1:5]] == [""] * 4
    assert [found[0].text, found[5].text] == [*texts(translator, [lines[0]]), *texts(translator, [lines[5]])]
    calls = []
    translator.model.encoder.embedding.register_forward_pre_hook(lambda *_: calls.append(1))
    assert texts(translator, ["", " "]) == ["", ""]
    assert not calls
    texts(translator, ["Hello."])
    assert calls


def test_no_lines_give_no_translations(translator):
    assert texts(translator, []) == []


def assert_equal_but_for_rounding(found, expected):
    assert [translation.text for translation in found] == [translation.text for translation in expected]
    assert [translation.score for translation in found] == pytest.approx(
        [translation.score for translation in expected], abs=1e-4
    )


def test_batching_and_order_change_neither_strings_nor_scores(tiny_bundle):
    words = [word for source in SOURCES for word in source.split()]
    rng = random.Random(5)
    lines = [" ".join(rng.choices(words, k=rng.randint(1, 9))) for _ in range(40)]
    expected = list(Translator.from_bundle(tiny_bundle, batch_size=1).translate(lines))
    for batch_size in (7, 40):
        translator = Translator.from_bundle(tiny_bundle, batch_size=batch_size)
        assert_equal_but_for_rounding(list(translator.translate(lines)), expected)
    order = rng.sample(range(40), 40)
    shuffled = list(translator.translate([lines[n] for n in order]))
    assert_equal_but_for_rounding(shuffled, [expected[n] for n in order])


def test_chunks_change_nothing(translator):
    expected = texts(translator, SOURCES)
    for chunk_lines in (1, 2, 6):
        assert texts(translator, SOURCES, chunk_lines=chunk_lines) == expected


def test_a_chunk_of_one_line_is_answered_before_the_next_is_read(translator):
    events = []

    def lines():
        for number in (1, 2):
            events.append(f"read {number}")
            yield SOURCES[number]

    for _ in translator.translate(lines(), chunk_lines=1):
        events.append("answered")
    assert events == ["read 1", "answered", "read 2", "answered"]


def test_carriage_returns_change_no_translation(translator, tmp_path):
    unix, windows = tmp_path / "unix", tmp_path / "windows"
    unix.write_bytes("".join(f"{line}\n" for line in SOURCES).encode())
    windows.write_bytes("".join(f"{line}\r\n" for line in SOURCES).encode())
    assert texts(translator, read_lines(windows)) == texts(translator, read_lines(unix))


def test_a_translation_is_one_line_whatever_bytes_the_model_spells(translator, tiny_bundle):
    # Byte fallback has a piece for LF, and an under-trained model may well say it.
    tokenizer = tiny_bundle.tokenizer
    spelled = {name: next(i for i in range(260) if tokenizer.pieces([i]) == [name]) for name in ("\n", "\r")}
    line_feed, carriage_return = spelled.values()
    table = {BOS: {line_feed: 1.0}, line_feed: {carriage_return: 1.0}, carriage_return: {EOS: 1.0}}
    translator.model = bigram_model(table, tokenizer.vocab_size)
    (text,) = texts(translator, ["Hello."])
    assert "\n" not in text
    assert "\r" not in text


# ---- Odd text ----


def test_an_over_long_line_is_cut_with_a_warning_that_names_it(translator, caplog):
    lines = [SOURCES[0], SOURCES[1], "and " * 6000, SOURCES[2], SOURCES[3]]
    found = texts(translator, lines)
    assert [found[n] for n in (0, 1, 3, 4)] == TARGETS[:4]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("line 3 has ")
    assert record.getMessage().endswith(" tokens: only the first 64 are read")
    assert found[2] == texts(translator, ["and " * 64])[0]


def test_the_line_number_of_a_warning_goes_on_over_chunks(translator, caplog):
    texts(translator, ["a", "b", "and " * 100], chunk_lines=1)
    assert caplog.records[0].getMessage().startswith("line 3 has ")


def test_no_line_is_longer_than_the_model_can_read(translator):
    translator.model.encoder.max_source_length = 9  # EOS included
    assert translator.max_source_tokens == 8
    lengths = []
    translator.model.encoder.embedding.register_forward_pre_hook(lambda _, args: lengths.append(args[0].shape[1]))
    texts(translator, [SOURCES[0]])
    assert lengths == [9]


def test_what_looks_like_a_control_token_is_text(translator, tiny_bundle):
    sources = []
    embedding = translator.model.encoder.embedding
    embedding.register_forward_pre_hook(lambda _, args: sources.extend(args[0][0].tolist()))
    list(translator.translate(["How is </s> set in HTML?"]))
    assert sources.count(EOS) == 1
    assert sources[-1] == EOS
    assert tiny_bundle.tokenizer.decode(sources) == "How is </s> set in HTML?"
    assert texts(translator, ["</s>"]) == texts(translator, ["x", "</s>"])[1:]


def test_unseen_characters_are_counted_and_translated(translator, caplog):
    assert len(texts(translator, ["Well done 👍", "漢字", SOURCES[0]])) == 3
    assert [record.getMessage() for record in caplog.records] == [
        "3 characters in 2 lines are not in the vocabulary: they were read byte by byte, or as unknown"
    ]


def test_a_line_with_text_is_never_answered_by_silence(translator, tiny_bundle, caplog):
    word = tiny_bundle.tokenizer.encode("the")[0]
    translator.model = bigram_model(
        {BOS: {EOS: 0.999, word: 0.001}, word: {EOS: 1.0}}, tiny_bundle.tokenizer.vocab_size
    )
    said = tiny_bundle.tokenizer.decode([word])
    assert texts(translator, ["Hello.", "", "漢字"]) == [said, "", said] != [""] * 3
    assert "became blank" not in caplog.text


def test_lines_that_become_blank_all_the_same_are_counted(translator, tiny_bundle, caplog):
    control = next(i for i in range(260) if tiny_bundle.tokenizer.pieces([i]) == ["\1"])
    translator.model = bigram_model({BOS: {control: 1.0}, control: {EOS: 1.0}}, tiny_bundle.tokenizer.vocab_size)
    assert texts(translator, ["", "Hello.", " ", "Hello."], chunk_lines=1) == [""] * 4
    assert [record.getMessage() for record in caplog.records] == [
        "2 lines with text became blank, the first is line 2: the model spelled nothing that can be seen"
    ]


def test_validation_can_go_without_warnings(tiny_bundle, caplog):
    b = tiny_bundle
    translator = Translator(b.model, b.tokenizer, b.preprocessing, b.search, warn=False)
    texts(translator, ["漢字", "and " * 100])
    assert not caplog.records


def test_an_endless_model_is_stopped_at_the_limit_of_each_line(translator, tiny_bundle):
    word = tiny_bundle.tokenizer.encode("the")[0]
    translator.model = bigram_model({BOS: {word: 1.0}, word: {word: 1.0}}, tiny_bundle.tokenizer.vocab_size)
    start = time.perf_counter()
    found = list(translator.translate(["no", "haha haha haha haha"]))
    assert time.perf_counter() - start < 5
    for line, translation in zip(["no", "haha haha haha haha"], found, strict=True):
        length = len(tiny_bundle.tokenizer.encode(line)) + 1
        assert len(translation.text.split()) == 2 * length + 10
        assert translation.cut
        assert translation.looping


@pytest.mark.parametrize(
    ("ids", "looping"),
    [
        ([], False),
        ([5, 5, 5], False),
        ([5, 5, 5, 5], True),
        ([9, 5, 5, 5, 5, 9], True),
        ([5, 6, 5, 6, 5, 6, 5], False),
        ([5, 6, 5, 6, 5, 6, 5, 6], True),
        ([1, 2, 3, 4, 5, 6, 7, 8] * 4, True),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9] * 4, False),
        ([5, 5, 6, 5, 5, 6, 5, 5], False),
        (list(range(50)), False),
    ],
)
def test_looping_means_the_same_1_to_8_tokens_four_times_in_a_row(ids, looping):
    assert is_looping(ids) == looping


# ---- Numbers ----


def test_alternatives_are_the_second_best_and_on(translator):
    (found,) = translator.translate(["A tall otter waters the moon."], n_best=4)
    ranked = [found, *found.alternatives]
    assert 1 < len(ranked) <= 4
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    assert found._replace(alternatives=()) == next(translator.translate(["A tall otter waters the moon."]))


def test_scoring_a_translation_gives_what_search_reported(translator):
    translations = list(translator.translate(SOURCES))
    scores = list(translator.score(zip(SOURCES, TARGETS, strict=True)))
    for translation, score in zip(translations, scores, strict=True):
        assert score.log_prob == pytest.approx(translation.log_prob, abs=1e-4)
        assert score.score == pytest.approx(translation.score, abs=1e-4)


def test_batches_change_no_score(tiny_bundle):
    pairs = [*PAIRS, ("", "x"), ("x", ""), ("", ""), (SOURCES[0], "y " * 50)]
    one, many = ([s.log_prob for s in Translator.from_bundle(tiny_bundle, batch_size=n).score(pairs)] for n in (1, 10))
    assert one == pytest.approx(many, abs=1e-4)


def test_a_target_longer_than_the_model_can_write_names_its_line(translator):
    translator.model.decoder.max_target_length = 12  # BOS included
    assert len(list(translator.score([("a", "Q" * 10)]))) == 1  # 11 tokens
    with pytest.raises(UserError, match="line 2: the target has 12 tokens, this model writes up to 11"):
        list(translator.score([("a", "b"), ("a", "Q" * 11)]))


# ---- The model ----


def test_a_model_in_training_is_left_as_it_was_found(translator):
    model = translator.model
    model.train()
    model.encoder.eval()
    before = [module.training for module in model.modules()]
    seen = []
    model.decoder.norm.register_forward_pre_hook(  # at work however the decoder is run
        lambda module, _: seen.append((module.training, torch.is_inference_mode_enabled()))
    )
    translations = translator.translate(SOURCES, chunk_lines=1)
    next(translations)  # suspended between two lines
    assert [module.training for module in model.modules()] == before
    assert not torch.is_inference_mode_enabled()
    list(translations)
    assert set(seen) == {(False, True)}
    assert [module.training for module in model.modules()] == before


def test_the_mode_is_restored_after_an_error(translator):
    translator.model.train()
    next(translator.model.decoder.parameters()).data.fill_(torch.nan)
    with pytest.raises(UserError, match="NaN"):
        texts(translator, SOURCES)
    assert translator.model.training


# ---- Errors ----


def test_n_best_beyond_the_beam_is_refused_before_a_line_is_read(translator):
    with pytest.raises(UserError, match="n_best=9 must be between 1 and the beam size, 5"):
        texts(translator, [], n_best=9)


def test_a_batch_of_no_sentences_is_refused(tiny_bundle):
    with pytest.raises(UserError, match="batch_size=0 must be at least 1"):
        Translator.from_bundle(tiny_bundle, batch_size=0)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_two_threads_translate_as_one_does(tiny_bundle, two_threads):
    lines = [f"{src} {number}" for number in range(20) for src, _ in PAIRS]
    translator, threads = Translator.from_bundle(tiny_bundle, batch_size=7), set()
    embedding = tiny_bundle.model.encoder.embedding
    embedding.register_forward_pre_hook(lambda *_: threads.add((threading.get_ident(), torch.get_num_threads())))
    together = list(translator.translate(lines))
    assert len(threads) == 2
    assert {number for _, number in threads} == {1}
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert [found.text for found in translator.translate(lines)] == [found.text for found in together]


def test_a_line_alone_is_searched_by_one_thread_where_that_is_little_work(tiny_bundle, two_threads, monkeypatch):
    translator, threads = Translator.from_bundle(tiny_bundle), []
    tiny_bundle.model.encoder.embedding.register_forward_pre_hook(lambda *_: threads.append(torch.get_num_threads()))
    texts(translator, SOURCES[:1])
    monkeypatch.setattr("seq2seq.inference.translator.WEIGHTS_OF_ONE_THREAD", 1000)
    texts(translator, SOURCES[:1])
    assert threads == [1, 2]
    assert torch.get_num_threads() == 2


def test_an_error_in_one_of_two_threads_is_raised(tiny_bundle, two_threads):
    with torch.no_grad():
        tiny_bundle.model.decoder.output.weight.fill_(math.nan)
    with pytest.raises(UserError, match="NaN at search step 1"):
        list(Translator.from_bundle(tiny_bundle, batch_size=2).translate([src for src, _ in PAIRS]))
    assert torch.get_num_threads() == 2


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12), max_size=6))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_gives_line_k_for_line_k(translator, lines):
    raw = "".join(f"{line}\n" for line in lines).encode()
    clean = list(read_lines(io.BytesIO(raw), Counter()))
    together = [found.text for found in translator.translate(clean)]
    assert together == [next(translator.translate([line])).text for line in clean]
    assert not any("\n" in text for text in together)
    assert all(text == "" for line, text in zip(clean, together, strict=True) if not translator.tokenizer.encode(line))
