import dataclasses
import json
import os
import shutil
from enum import Enum
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from seq2seq.data.tokenizer import TokenizerConfig, train_tokenizer
from seq2seq.errors import UserError
from seq2seq.inference.bundle import Bundle, Preprocessing, load_bundle, save_bundle
from seq2seq.inference.search import SearchConfig
from seq2seq.models import ARCHITECTURES, build_model
from seq2seq.models.rnn import RNNConfig


@pytest.fixture
def folder(tiny_bundle_folder, tmp_path):
    """A bundle of one's own, to be broken."""
    return Path(shutil.copytree(tiny_bundle_folder, tmp_path / "bundle"))


def edit(path, change):
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def refusal(path, **options):
    with pytest.raises(UserError) as caught:
        load_bundle(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


# ---- Saved and loaded ----


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_is_saved_is_what_is_loaded(architecture, tiny_tokenizer, tmp_path):
    config = ARCHITECTURES[architecture].config(dropout=0.25)
    bundle = Bundle(
        model=build_model(config, tiny_tokenizer.vocab_size).eval(),
        config=config,
        tokenizer=tiny_tokenizer,
        preprocessing=Preprocessing(lowercase=False, max_source_tokens=77, src_lang="en", tgt_lang="de"),
        search=SearchConfig(beam_size=3, length_penalty=0.5),
        metrics={"test": {"bleu": 12.5}},
    )
    save_bundle(tmp_path / "a", bundle)
    random_state = torch.get_rng_state()
    loaded = load_bundle(tmp_path / "a")
    assert torch.equal(torch.get_rng_state(), random_state)
    for field in ("config", "preprocessing", "search", "metrics", "architecture"):
        assert getattr(loaded, field) == getattr(bundle, field)
    assert type(loaded.config) is type(config)
    assert loaded.tokenizer.fingerprint == tiny_tokenizer.fingerprint
    assert not loaded.model.training
    expected, found = bundle.model.state_dict(), loaded.model.state_dict()
    assert expected.keys() == found.keys()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_every_choice_of_every_architecture_survives(tiny_tokenizer, tmp_path):
    for number, entry in enumerate(ARCHITECTURES.values()):
        for field in dataclasses.fields(entry.config):
            default = getattr(entry.config(), field.name)
            for value in type(default) if isinstance(default, Enum) else ():
                try:
                    config = entry.config(**{field.name: value})
                except UserError:  # does not go with the other defaults
                    continue
                bundle = Bundle(
                    build_model(config, tiny_tokenizer.vocab_size),
                    config,
                    tiny_tokenizer,
                    Preprocessing(False, 9, "en", "de"),
                    SearchConfig(),
                    {},
                )
                folder = tmp_path / f"{number}-{field.name}-{value.value}"
                save_bundle(folder, bundle)
                assert load_bundle(folder).config == config


def test_tied_parameters_are_stored_once_and_stay_tied(folder):
    stored = [tensor for tensor in load_file(folder / "weights.safetensors").values() if tensor.shape[0] == 380]
    loaded = load_bundle(folder).model
    tables = [p for _, p in loaded.named_parameters(remove_duplicate=False) if p.shape[0] == 380]
    assert len(stored) == len(set(map(id, tables))) == 1
    assert len(tables) == 3


def test_a_bundle_holds_four_files_and_float32(folder, tiny_bundle):
    assert sorted(path.name for path in folder.iterdir()) == [
        "metrics.json",
        "model.json",
        "tokenizer.model",
        "weights.safetensors",
    ]
    half = dataclasses.replace(tiny_bundle, model=tiny_bundle.model.to(torch.bfloat16))
    save_bundle(folder, half)
    assert {tensor.dtype for tensor in load_file(folder / "weights.safetensors").values()} == {torch.float32}
    load_bundle(folder)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_weights_come_in_the_type_asked_for(folder, dtype):
    assert {parameter.dtype for parameter in load_bundle(folder, dtype=dtype).model.parameters()} == {dtype}


def test_a_run_folder_stands_for_its_bundle(folder):
    assert load_bundle(folder.parent).metrics == load_bundle(folder).metrics


def test_a_new_bundle_replaces_the_old_whole(folder, tiny_bundle):
    (folder / "left.over").touch()
    save_bundle(folder, dataclasses.replace(tiny_bundle, metrics={"updates": 2}))
    assert load_bundle(folder).metrics == {"updates": 2}
    assert [path.name for path in folder.parent.iterdir()] == ["bundle"]
    assert not (folder / "left.over").exists()


def test_a_failed_save_leaves_the_old_bundle_alone(folder, tiny_bundle):
    with pytest.raises(TypeError):
        save_bundle(folder, dataclasses.replace(tiny_bundle, metrics={"no": object()}))
    assert load_bundle(folder).metrics == tiny_bundle.metrics
    assert [path.name for path in folder.parent.iterdir()] == ["bundle"]


# ---- Refused ----


def test_a_path_that_does_not_exist_is_named(tmp_path):
    assert refusal(tmp_path / "no") == f"{tmp_path / 'no'} does not exist; give a run folder or a bundle"


def test_a_folder_that_is_neither_run_nor_bundle_is_refused(tmp_path):
    assert "is neither a run folder nor a bundle" in refusal(tmp_path)


def test_a_run_still_in_training_says_so(tmp_path):
    (tmp_path / "config.yaml").touch()
    assert "has no bundle yet: it comes at the end of training; go on with" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["weights.safetensors", "tokenizer.model", "metrics.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    assert refusal(folder).startswith(f"{folder / name} cannot be read: ")


@pytest.mark.parametrize("name", ["weights.safetensors", "tokenizer.model", "metrics.json", "model.json"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_truncated_file_is_named(folder, name, share):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: min(int(len(content) * share), len(content) - 2)])
    assert str(folder / name) in refusal(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", "is not part of a bundle: it holds no JSON object"),
        ("{}", "was not written by this program: it names no format version"),
        ('{"format": "1"}', "it names no format version"),
        ('{"format": true}', "it names no format version"),
        ('{"format": 1, "config": {}}', "is damaged: it lacks architecture, preprocessing, search, tokenizer"),
        ("[" * 100_000, "it is not JSON"),
        ('{"format": ' + "9" * 5000 + "}", "it is not JSON"),
    ],
)
def test_foreign_json_is_refused(folder, content, message):
    (folder / "model.json").write_text(content)
    assert message in refusal(folder)


def test_a_newer_format_asks_for_a_newer_program(folder):
    edit(folder / "model.json", lambda content: content.update(format=2))
    assert refusal(folder).endswith("has format 2, this program reads up to 1; install a newer seq2seq")


@pytest.mark.parametrize("name", ["os.system", ["rnn"], None])
def test_only_architectures_of_the_table_are_built(folder, name):
    edit(folder / "model.json", lambda content: content.update(architecture=name))
    assert "not one of rnn, bahdanau, luong, transformer, hybrid" in refusal(folder)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("d_model", "32", "config: d_model='32' must be int"),
        ("d_model", True, "config: d_model=True must be int"),
        ("d_model", 32.5, "config: d_model=32.5 must be int"),
        ("d_model", None, "config: d_model=None must be int"),
        ("dropout", "high", "config: dropout='high' must be float"),
        ("dropout", float("nan"), "config: model.dropout=nan must be"),
        ("positions", "sideways", "config: positions='sideways' must be sinusoidal|learned|relative|none"),
        ("positions", ["learned"], "positions=['learned'] must be"),
        ("tie_embeddings", 1, "config: tie_embeddings=1 must be bool"),
        ("_target_", "os.system", "config must hold d_model, "),
        ("num_heads", 5, "model.d_model=32 must be a multiple of model.num_heads=5"),
        ("num_layers", 1000, "num_layers=1000 is more than it can hold"),
        ("d_ff", 10**12, "d_ff=1000000000000 is more than it can hold"),
    ],
)
def test_settings_are_checked_by_name_and_type(folder, name, value, message):
    edit(folder / "model.json", lambda content: content["config"].update({name: value}))
    assert message in refusal(folder)


def test_a_bundle_from_before_a_setting_that_only_training_needs_can_be_loaded(tiny_tokenizer, tmp_path):
    config = RNNConfig(embedding_dim=8, hidden_size=8, embedding_std=0.5)
    model = build_model(config, tiny_tokenizer.vocab_size)
    preprocessing = Preprocessing(lowercase=False, max_source_tokens=9, src_lang="en", tgt_lang="de")
    save_bundle(tmp_path / "bundle", Bundle(model, config, tiny_tokenizer, preprocessing, SearchConfig(), {}))
    edit(tmp_path / "bundle" / "model.json", lambda content: content["config"].pop("embedding_std"))
    loaded = load_bundle(tmp_path / "bundle").model.state_dict()
    assert all(loaded[name].equal(tensor) for name, tensor in model.state_dict().items())


def test_settings_that_are_left_out_are_named(folder):
    edit(folder / "model.json", lambda content: content["config"].pop("d_ff"))
    assert "config must hold d_model, d_ff, " in refusal(folder)


@pytest.mark.parametrize(
    ("section", "content", "message"),
    [
        ("search", {}, "search must hold beam_size, "),
        ("search", None, "search must hold beam_size, "),
        ("preprocessing", "lower", "preprocessing must hold lowercase, max_source_tokens, src_lang, tgt_lang"),
        (
            "preprocessing",
            {"lowercase": False, "max_source_tokens": 0, "src_lang": "en", "tgt_lang": "de"},
            "preprocessing: max_source_tokens=0 must be at least 1",
        ),
    ],
)
def test_other_sections_are_checked_too(folder, section, content, message):
    edit(folder / "model.json", lambda description: description.update({section: content}))
    assert message in refusal(folder)


def test_a_swapped_tokenizer_is_refused_and_both_are_named(folder, tiny_tokenizer):
    lines = ["Wer andern eine Grube gräbt, fällt selbst hinein.", "abcdefghijklmnopqrstuvwxyz ABCDEFG"]
    other = train_tokenizer(lines, TokenizerConfig(vocab_size=400))
    (folder / "tokenizer.model").write_bytes(other.model)
    message = refusal(folder)
    assert other.fingerprint[:12] in message
    assert tiny_tokenizer.fingerprint[:12] in message


def test_a_changed_lowercase_setting_counts_as_another_tokenizer(folder):
    edit(folder / "model.json", lambda content: content["preprocessing"].update(lowercase=True))
    assert "is not the tokenizer that the model was trained with" in refusal(folder)


def test_weights_of_another_size_are_refused_before_memory_is_taken(folder):
    edit(folder / "model.json", lambda content: content["config"].update(d_ff=2**20, d_model=2**20))
    message = refusal(folder)
    assert "does not fit model.json" in message
    assert "both must come from one run" in message


def test_weights_with_one_changed_byte_are_refused(folder):
    weights = folder / "weights.safetensors"
    content = bytearray(weights.read_bytes())
    content[-100] ^= 1
    weights.write_bytes(content)
    assert "is damaged, or of another run; copy the whole bundle again" in refusal(folder)


def test_of_a_packed_run_it_is_said_that_it_has_no_weights(folder):
    (folder / "weights.safetensors").unlink()
    (folder / "tokenizer.model").unlink()
    assert refusal(folder).endswith("copy the whole bundle again; if it is a packed run, it has no weights: train it")


def test_weights_of_another_type_are_refused(folder):
    path = folder / "weights.safetensors"
    save_file({name: tensor.half() for name, tensor in load_file(path).items()}, path)
    assert "is F16 " in refusal(folder)


@pytest.mark.parametrize("change", ["missing", "extra"])
def test_tensors_that_are_missing_or_unknown_are_named(folder, change):
    path = folder / "weights.safetensors"
    weights = load_file(path)
    if change == "missing":
        name = sorted(weights)[0]
        del weights[name]
    else:
        name = "zzz"
        weights[name] = torch.zeros(2)
    save_file(weights, path)
    message = refusal(folder)
    assert name in message
    assert "absent" in message


def test_a_pickle_in_place_of_weights_is_never_opened(folder):
    class Trap:
        def __reduce__(self):
            return os._exit, (99,)

    torch.save(Trap(), folder / "weights.safetensors")
    assert "is damaged or cut short" in refusal(folder)


@pytest.mark.parametrize("device", ["cuda", "cuda:63", "tpu", "meta"])
def test_a_device_that_is_not_there_is_refused_in_one_line(folder, device):
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("it is there")
    assert refusal(folder, device=device).startswith(f"device={device} is not there; this machine has cpu")
