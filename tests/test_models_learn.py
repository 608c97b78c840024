"""Every architecture can learn: a batch by heart, and with finite numbers on the shortest and on long sources."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from architectures import CONFIGS, VOCAB_SIZE, random_sources, random_words

from seq2seq.data.batch import collate
from seq2seq.data.tokenizer import EOS, PAD
from seq2seq.inference.search import SearchConfig, beam_search
from seq2seq.models import BahdanauConfig, HybridConfig, LuongConfig, RNNConfig, TransformerConfig, build_model
from seq2seq.models.rnn import Variant

LONG = 300

SMALL = {
    "rnn-cho": RNNConfig(Variant.cho, embedding_dim=32, hidden_size=64, readout_size=32, dropout=0.0),
    "rnn-sutskever": RNNConfig(Variant.sutskever, embedding_dim=32, hidden_size=64, dropout=0.0),
    "bahdanau": BahdanauConfig(embedding_dim=32, hidden_size=64, attention_size=32, readout_size=32, dropout=0.0),
    "luong": LuongConfig(embedding_dim=32, hidden_size=64, dropout=0.0),
    "transformer": TransformerConfig(d_model=32, d_ff=64, num_layers=2, dropout=0.0),
    "hybrid": HybridConfig(
        d_model=32, d_ff=64, num_layers=2, embedding_dim=32, hidden_size=64, attention_size=32, dropout=0.0
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_batch_learnt_by_heart_is_read_back(name):
    torch.manual_seed(0)
    lengths = [6, 5, 4, 3, 2, 1, 5, 4]
    src = [[*random_words(1, length, seed)[0].tolist(), EOS] for seed, length in enumerate(lengths)]
    tgt = [[*random_words(1, length, seed)[0].tolist(), EOS] for seed, length in enumerate(lengths[::-1], start=8)]
    batch = collate(src, tgt, range(8))
    model = build_model(SMALL[name], VOCAB_SIZE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    for _ in range(80):
        logits = model(batch.src, batch.src_lengths, batch.tgt_in).logits
        loss = F.cross_entropy(logits.flatten(0, 1), batch.tgt_out.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = beam_search(model.eval(), batch.src, batch.src_lengths, SearchConfig(beam_size=1))
    assert [[*hypotheses[0].ids, EOS] for hypotheses in found] == tgt


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "bfloat16-mixed"])
def test_numbers_and_gradients_are_finite_on_sources_of_one_token_and_of_many(name, precision):
    torch.manual_seed(0)
    config = CONFIGS[name]
    limits = {limit: LONG for limit in ("max_positions", "max_source_length") if hasattr(config, limit)}
    model = build_model(replace(config, **limits), VOCAB_SIZE)
    if precision == "bfloat16":
        model.bfloat16()
    src, src_lengths = random_sources([LONG, 1])
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16-mixed"):
        memory = model.encode(src, src_lengths)
        state = model.decode(random_words(2, 3), memory, model.init_state(memory)).state
        logits = model.decode(random_words(2, 2), memory, state).logits
    assert logits.dtype is (torch.float32 if precision == "float32" else torch.bfloat16)
    assert logits.isfinite().all()
    logits.float().logsumexp(dim=-1).sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
