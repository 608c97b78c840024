"""JoeyNMT's Transformer, and its GRU with Bahdanau's attention, random weights of our sizes."""

import sys
from functools import partial
from types import SimpleNamespace

import torch
from joeynmt.model import build_model
from joeynmt.vocabulary import Vocabulary
from train_protocol import load_batches, serve

PAD, UNK, BOS, EOS = 0, 1, 2, 3
file, name, vocab_size, seed = sys.argv[1:]
special = SimpleNamespace(
    pad_token="<pad>", pad_id=PAD, unk_token="<unk>", unk_id=UNK, bos_token="<s>", bos_id=BOS,
    eos_token="</s>", eos_id=EOS, sep_token=None, sep_id=None, lang_tags=[],
)  # fmt: skip


class _Ours(Vocabulary):
    """The vocabulary that the batches were made with: only its size and special ids matter."""

    def add_tokens(self, tokens: list[str]) -> None:
        self._itos = ["<pad>", "<unk>", "<s>", "</s>", *(f"piece{i}" for i in range(4, int(vocab_size)))]
        self._stoi = {token: i for i, token in enumerate(self._itos)}


transformer = {
    "type": "transformer", "num_layers": 4, "num_heads": 4, "hidden_size": 128, "ff_size": 256, "dropout": 0.3,
    "layer_norm": "pre", "embeddings": {"embedding_dim": 128, "scale": True, "dropout": 0.3},
}  # fmt: skip
recurrent = {
    "type": "recurrent", "rnn_type": "gru", "num_layers": 1, "hidden_size": 256, "dropout": 0.2,
    "embeddings": {"embedding_dim": 256, "dropout": 0.2},
}  # fmt: skip
configs = {
    "transformer": {"encoder": transformer, "decoder": transformer, "tied_embeddings": True, "tied_softmax": True},
    "bahdanau": {
        "encoder": {**recurrent, "bidirectional": True},
        "decoder": {**recurrent, "attention": "bahdanau", "init_hidden": "bridge", "input_feeding": True},
    },
}


def contestant(amp: bool) -> partial[None]:
    """Return a training step on a model of its own."""
    torch.manual_seed(int(seed))
    vocabulary = _Ours([], special)
    model = build_model({**configs[name], "initializer": "xavier_uniform"}, vocabulary, vocabulary).train()
    model.loss_function = ("crossentropy", 0.1)
    return partial(step, model, torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98)), amp)


def step(model: torch.nn.Module, adam: torch.optim.Optimizer, amp: bool, batch: dict[str, torch.Tensor]) -> None:
    """Make one update; sorted by source length, as JoeyNMT's recurrent encoder wants it."""
    order = batch["src_lengths"].argsort(descending=True)
    src, targets = batch["src"][order], batch["tgt_out"][order]
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        loss, *_ = model(
            return_type="loss",
            src=src,
            trg_input=batch["tgt_in"][order],
            trg=targets,
            src_mask=(src != PAD)[:, None],
            src_length=batch["src_lengths"][order],
            trg_mask=(targets != PAD)[:, None],
        )
    (loss / (targets != PAD).sum()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adam.step()
    adam.zero_grad()


serve({"float32": contestant(False)}, load_batches(file), ["torch", "joeynmt"])
