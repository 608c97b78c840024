import mmap

import pytest
import torch
from toy import toy_model

from seq2seq.data.store import PairStore, write_store
from seq2seq.models import build_model
from seq2seq.models.rnn import RNNConfig, Variant
from seq2seq.models.transformer import TransformerConfig
from seq2seq.training.cost import PeakMemory, flops_per_target_token


@pytest.fixture
def store(tmp_path):
    with write_store(tmp_path / "store", 6) as writer:
        writer.append([[4, 5]], [[4, 5, 4]], ["x y"], ["x y x"])
    return PairStore(tmp_path / "store")


def test_operations_are_those_that_a_hand_counts(store):
    # Four target tokens, EOS one of them. Each: a 5 x 5 and a 5 x 6 matrix, two operations a weight. Backward the same
    # again for the weights and for what is before them, but nothing is before the first state.
    found = flops_per_target_token(toy_model(0, vocab_size=6, size=5), store, batch_tokens=64)
    assert found["forward"] == 2 * 25 + 2 * 30
    assert found["backward"] == (4 * 2 * (2 * 30) + (4 + 3) * 2 * 25) / 4


def test_padding_counts_as_much_as_in_training(tmp_path):
    # So many pairs of each length that batches hold hardly any padding; 1,024 pairs alone would not have done.
    with write_store(tmp_path / "store", 6) as writer:
        for number in range(8000):
            ids = [4] * (number % 40)
            writer.append([ids], [ids], [""], [""])
    found = flops_per_target_token(toy_model(0, vocab_size=6, size=5), PairStore(tmp_path / "store"), batch_tokens=4000)
    assert 1 <= found["forward"] / (2 * 25 + 2 * 30) < 1.1


def test_batches_of_a_gpu_are_counted_in_smaller_ones(tmp_path):
    with write_store(tmp_path / "store", 6) as writer:
        for number in range(2000):
            ids = [4] * (number % 40)
            writer.append([ids], [ids], [""], [""])
    model, store = toy_model(0, vocab_size=6, size=5), PairStore(tmp_path / "store")
    rows = []
    model.decoder.register_forward_pre_hook(lambda _, args: rows.append(args[0].numel()))
    assert flops_per_target_token(model, store, 10**6) == flops_per_target_token(model, store, 4096)
    assert max(rows) <= 4096


def test_an_lstm_and_attention_are_counted(store):
    lstm = RNNConfig(variant=Variant.sutskever, embedding_dim=8, hidden_size=8, num_layers=1, dropout=0.0)
    model = build_model(lstm, 6)
    weights = sum(p.numel() for name, p in model.named_parameters() if "rnn" in name and "weight" in name)
    assert weights >= 2 * (8 + 8) * 4 * 8
    assert flops_per_target_token(model, store, 64)["forward"] >= 2 * weights * 3 / 4  # 3 source tokens for 4 of target
    assert torch.backends.mkldnn.enabled

    def attending(heads):
        config = TransformerConfig(d_model=8, d_ff=8, num_heads=heads, num_layers=1, dropout=0.0)
        return flops_per_target_token(build_model(config, 6), store, 64)["forward"]

    # of all matrices but the vocabulary's: attention's products of sequences come on top
    config = TransformerConfig(d_model=8, d_ff=8, num_heads=1, num_layers=1, dropout=0.0)
    matrices = [p.numel() for n, p in build_model(config, 6).named_parameters() if p.dim() == 2 and 6 not in p.shape]
    assert attending(1) > 2 * sum(matrices) * 3 / 4
    assert attending(1) == attending(2)


def test_counting_leaves_the_model_and_the_random_numbers_alone(store):
    model = build_model(TransformerConfig(d_model=8, d_ff=8, num_heads=1, num_layers=1), 6).eval()
    state = torch.get_rng_state()
    flops_per_target_token(model, store, 64)
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_peak_memory_begins_anew_and_keeps_what_was_given_back():
    memory = PeakMemory("cpu")
    before = memory.bytes()
    if before is None:
        pytest.skip("this system does not tell")
    size = 256 * 2**20
    block = mmap.mmap(-1, size)
    for page in range(0, size, 4096):
        block[page] = 1
    block.close()
    assert memory.bytes() > before + 0.9 * size
    assert PeakMemory("cpu").bytes() < before + 0.5 * size
