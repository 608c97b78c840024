"""An exported model gives the translations of the model itself."""

import json
import random
import sys
from pathlib import Path

import pytest
import torch
from conftest import PAIRS, learned_by_heart

from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.errors import UserError
from seq2seq.inference.bundle import load_bundle, save_bundle
from seq2seq.inference.engine import CTranslate2Translator
from seq2seq.inference.export import export_ctranslate2
from seq2seq.inference.search import SearchConfig
from seq2seq.inference.translator import Translator
from seq2seq.models import build_model
from seq2seq.models.rnn import RNNConfig
from seq2seq.models.transformer import Norm, Positions, TransformerConfig


def tiny_config(**settings) -> TransformerConfig:
    return TransformerConfig(d_model=32, d_ff=64, num_heads=2, num_layers=2, dropout=0.0, **settings)


def random_lines(count: int) -> list[str]:
    draw = random.Random(1)
    words = [word for english, _ in PAIRS for word in english.split()]
    return [" ".join(draw.choices(words, k=draw.randint(1, 12))) for _ in range(count)]


@pytest.fixture(scope="module")
def exported(tiny_bundle_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "model"
    export_ctranslate2(load_bundle(tiny_bundle_folder), folder)
    return folder


# ---- Equality ----


@pytest.mark.parametrize("norm", Norm)
@pytest.mark.parametrize("positions", [Positions.sinusoidal, Positions.learned])
def test_a_thousand_sentences_become_the_same(tiny_tokenizer, tmp_path, norm, positions):
    bundle = learned_by_heart(tiny_config(norm=norm, positions=positions), tiny_tokenizer)
    export_ctranslate2(bundle, tmp_path / "model")
    lines = [*random_lines(990), *(english for english, _ in PAIRS), "", "  ", "¿", "x"]
    ours = Translator.from_bundle(bundle).translate(lines)
    theirs = CTranslate2Translator.from_folder(tmp_path / "model").translate(lines)
    compared = 0
    for expected, found in zip(ours, theirs, strict=True):
        assert found.cut == expected.cut
        if expected.cut:
            continue
        assert found.score == pytest.approx(expected.score, abs=1e-4)  # so another text can only be a tie
        if found.text == expected.text:
            assert found.log_prob == pytest.approx(expected.log_prob, abs=1e-3)
            compared += 1
    assert compared > 800


def test_without_a_length_penalty_the_search_is_no_longer_than_ours(tiny_bundle, tmp_path):
    tiny_bundle.search = SearchConfig(length_penalty=0.0)
    export_ctranslate2(tiny_bundle, tmp_path / "model")
    lines = random_lines(200)
    ours = Translator.from_bundle(tiny_bundle).translate(lines)
    theirs = CTranslate2Translator.from_folder(tmp_path / "model").translate(lines)
    assert [found.score for found in theirs] == pytest.approx([one.score for one in ours], abs=1e-3)


def test_what_finished_is_not_lost_to_what_was_cut(tiny_bundle, tmp_path):
    tiny_bundle.search = SearchConfig(max_length_ratio=0.5, max_length_extra=5)
    export_ctranslate2(tiny_bundle, tmp_path / "model")
    lines = random_lines(200)
    ours = list(Translator.from_bundle(tiny_bundle).translate(lines, n_best=5))
    theirs = list(CTranslate2Translator.from_folder(tmp_path / "model").translate(lines, n_best=5))
    assert [len(found.alternatives) for found in theirs] == [len(expected.alternatives) for expected in ours]
    assert [found.cut for found in theirs] == [expected.cut for expected in ours]


def test_the_n_best_are_ranked_by_our_score(tiny_bundle, exported):
    lines = random_lines(50)
    ours = Translator.from_bundle(tiny_bundle).translate(lines, n_best=3)
    theirs = CTranslate2Translator.from_folder(exported).translate(lines, n_best=3)
    for expected, found in zip(ours, theirs, strict=True):
        if not (expected.cut or found.cut):
            scores = [one.score for one in (found, *found.alternatives)]
            assert scores == pytest.approx([one.score for one in (expected, *expected.alternatives)], abs=1e-4)


def test_what_ours_never_writes_is_left_out(tiny_bundle, tmp_path):
    tiny_bundle.search = SearchConfig(max_length_ratio=0.0, max_length_extra=1)
    src = torch.tensor([[*tiny_bundle.tokenizer.encode(PAIRS[0][0]), EOS]])
    with torch.no_grad():
        first = tiny_bundle.model(src, torch.tensor([src.shape[1]]), torch.tensor([[BOS]])).logits.argmax()
        output = tiny_bundle.model.decoder.output
        output.weight = torch.nn.Parameter(output.weight.clone())  # not tied to the words' vectors any more
        output.weight[BOS] = output.weight[first]  # so it is as likely as the best word
    export_ctranslate2(tiny_bundle, tmp_path / "model")
    lines = [english for english, _ in PAIRS]
    ours = list(Translator.from_bundle(tiny_bundle).translate(lines, n_best=5))
    theirs = list(CTranslate2Translator.from_folder(tmp_path / "model").translate(lines, n_best=5))
    assert [found.text for found in theirs] == [expected.text for expected in ours]
    assert any(len(found.alternatives) < 4 for found in theirs)  # so there was something to leave out


def test_a_line_for_which_the_engine_finds_only_such_is_searched_again(tiny_bundle, tmp_path):
    tiny_bundle.search = SearchConfig(beam_size=1)
    src = torch.tensor([[*tiny_bundle.tokenizer.encode(PAIRS[0][0]), EOS]])
    with torch.no_grad():
        first = tiny_bundle.model(src, torch.tensor([src.shape[1]]), torch.tensor([[BOS]])).logits.argmax()
        output = tiny_bundle.model.decoder.output
        output.weight = torch.nn.Parameter(output.weight.clone())
        output.weight[BOS] = output.weight[first] * 1.5  # more likely than the best word
    export_ctranslate2(tiny_bundle, tmp_path / "model")
    (ours,) = Translator.from_bundle(tiny_bundle).translate([PAIRS[0][0]])
    (theirs,) = CTranslate2Translator.from_folder(tmp_path / "model").translate([PAIRS[0][0]])
    assert theirs.text == ours.text != ""


def test_no_translation_is_empty_and_the_others_keep_their_probabilities(tiny_bundle, tmp_path):
    with torch.no_grad():
        tiny_bundle.model.decoder.output.weight[EOS] *= -2  # now the model would say nothing to many lines
    export_ctranslate2(tiny_bundle, tmp_path / "model")
    lines = random_lines(30)
    ours = Translator.from_bundle(tiny_bundle).translate(lines)
    theirs = CTranslate2Translator.from_folder(tmp_path / "model").translate(lines)
    compared = 0
    for expected, found in zip(ours, theirs, strict=True):
        if not (expected.cut or found.cut):
            assert found.text == expected.text != ""
            assert found.log_prob == pytest.approx(expected.log_prob, abs=1e-3)
            compared += 1
    assert compared >= 10


def test_the_length_limit_is_a_sentence_s_own(tiny_bundle, tmp_path):
    tiny_bundle.search = SearchConfig(max_length_ratio=0.0, max_length_extra=2)
    export_ctranslate2(tiny_bundle, tmp_path / "model")
    (found,) = CTranslate2Translator.from_folder(tmp_path / "model").translate([PAIRS[0][0]])
    (expected,) = Translator.from_bundle(tiny_bundle).translate([PAIRS[0][0]])
    assert found.cut
    assert expected.cut
    assert found.text == expected.text


def test_a_line_longer_than_the_table_of_positions_is_cut_with_a_warning(tiny_tokenizer, tmp_path, caplog):
    bundle = learned_by_heart(tiny_config(positions=Positions.learned, max_positions=40), tiny_tokenizer)
    export_ctranslate2(bundle, tmp_path / "model")
    translator = CTranslate2Translator.from_folder(tmp_path / "model")
    line = " ".join(["Two green otters"] * 10)
    (found,) = translator.translate([line])
    (expected,) = Translator.from_bundle(bundle).translate([line])
    assert "only the first 39 are read" in caplog.text
    assert found.cut == expected.cut


def test_int8_weights_know_the_same_sentences(tiny_bundle, exported, tmp_path):
    export_ctranslate2(tiny_bundle, tmp_path / "small", "int8")
    translator = CTranslate2Translator.from_folder(tmp_path / "small")
    assert [found.text for found in translator.translate(english for english, _ in PAIRS)] == [de for _, de in PAIRS]
    assert (tmp_path / "small/model.bin").stat().st_size < (exported / "model.bin").stat().st_size / 2


# ---- What cannot be ----


def test_other_architectures_are_refused(tiny_bundle, tmp_path):
    config = RNNConfig(embedding_dim=8, hidden_size=8)
    tiny_bundle.model, tiny_bundle.config = build_model(config, tiny_bundle.tokenizer.vocab_size), config
    with pytest.raises(UserError, match="CTranslate2 has no rnn; of our models it runs only the transformer"):
        export_ctranslate2(tiny_bundle, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("positions", [Positions.relative, Positions.none])
def test_other_positions_are_refused(tiny_bundle, tmp_path, positions):
    tiny_bundle.config = tiny_config(positions=positions)
    with pytest.raises(UserError, match=f"cannot run model.positions={positions.value}; train with sinusoidal or"):
        export_ctranslate2(tiny_bundle, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_folder_of_something_else_is_not_overwritten(tiny_bundle, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="exists and is no exported folder; give --output a new one"):
        export_ctranslate2(tiny_bundle, tmp_path)
    assert (tmp_path / "thesis.txt").is_file()


def test_a_folder_that_was_not_exported_is_refused(tiny_bundle_folder):
    with pytest.raises(UserError, match=r"holds no translate.json: it was not exported; write one with seq2seq export"):
        CTranslate2Translator.from_folder(tiny_bundle_folder)


def copied(exported, tmp_path):
    for file in exported.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_a_newer_format_is_refused(exported, tmp_path):
    folder = copied(exported, tmp_path)
    content = json.loads((folder / "translate.json").read_text())
    (folder / "translate.json").write_text(json.dumps(content | {"format": 2}))
    with pytest.raises(UserError, match="has format 2, this program reads 1; export again"):
        CTranslate2Translator.from_folder(folder)


def test_damaged_weights_are_refused(exported, tmp_path):
    folder = copied(exported, tmp_path)
    (folder / "model.bin").write_bytes((folder / "model.bin").read_bytes()[:1000])
    with pytest.raises(UserError, match=r"CTranslate2 cannot load .*; export again"):
        CTranslate2Translator.from_folder(folder)


@pytest.mark.parametrize("limit", ["x", 0, 1])
def test_a_damaged_limit_is_refused(exported, tmp_path, limit):
    folder = copied(exported, tmp_path)
    content = json.loads((folder / "translate.json").read_text())
    (folder / "translate.json").write_text(json.dumps(content | {"max_positions": limit}))
    with pytest.raises(UserError, match=f"max_positions={limit!r} must be null or at least 2; export again"):
        CTranslate2Translator.from_folder(folder)


def test_a_damaged_vocabulary_is_said_when_it_shows(exported, tmp_path):
    folder = copied(exported, tmp_path)
    (folder / "shared_vocabulary.json").write_text("[]")
    with pytest.raises(UserError, match=r"CTranslate2 cannot .*; export again"):
        list(CTranslate2Translator.from_folder(folder).translate([PAIRS[0][0]]))


@pytest.mark.parametrize("device", ["mps", "cpu:x", "cpu:99999999999999", "cuda:"])
def test_devices_that_the_engine_lacks_are_refused(exported, device):
    with pytest.raises(UserError, match=f"device={device}: the engine has cpu, cuda, cuda:1"):
        CTranslate2Translator.from_folder(exported, device)


@pytest.mark.parametrize("folder", [".", "..", "below/.."])
def test_the_folder_one_is_in_is_not_replaced(tiny_bundle, exported, tmp_path, monkeypatch, folder):
    inside = copied(exported, tmp_path) / "below"
    inside.mkdir()
    monkeypatch.chdir(inside if folder == ".." else tmp_path)
    with pytest.raises(UserError, match="is the folder you are in, or holds it, and would be replaced"):
        export_ctranslate2(tiny_bundle, Path(folder))
    assert (tmp_path / "model.bin").is_file()


def test_what_a_link_names_is_replaced(tiny_bundle, exported, tmp_path):
    (tmp_path / "models").mkdir()
    copied(exported, tmp_path / "models")
    (tmp_path / "models" / "model.bin").write_bytes(b"old")
    (tmp_path / "link").symlink_to("models")
    for _ in range(2):
        export_ctranslate2(tiny_bundle, tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "models" / "model.bin").stat().st_size > 3
        assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "models"]


def test_a_folder_that_cannot_be_written_is_named(tiny_bundle, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write .*file/model \(.*\); what was there before is intact"):
        export_ctranslate2(tiny_bundle, tmp_path / "file" / "model")


def test_without_the_extra_the_way_to_it_is_named(tiny_bundle, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(
        UserError, match=r"ctranslate2 is not installed; in the project's folder: pip install -e '\.\[ctranslate2\]'"
    ):
        export_ctranslate2(tiny_bundle, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_the_tiny_bundle_is_exported_as_it_was_saved(tiny_bundle, exported, tmp_path):
    save_bundle(tmp_path / "bundle", tiny_bundle)
    export_ctranslate2(load_bundle(tmp_path / "bundle"), tmp_path / "model")
    assert (tmp_path / "model/model.bin").read_bytes() == (exported / "model.bin").read_bytes()
