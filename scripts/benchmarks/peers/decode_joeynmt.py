"""JoeyNMT's beam search on its Transformer, random weights of our sizes, its output length forced."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from decode_protocol import BEAMS, both, load_work, serve
from joeynmt.model import build_model
from joeynmt.search import beam_search
from joeynmt.vocabulary import Vocabulary

PAD, UNK, BOS, EOS = 0, 1, 2, 3
work = load_work()
sizes = work["config"]
special = SimpleNamespace(
    pad_token="<pad>", pad_id=PAD, unk_token="<unk>", unk_id=UNK, bos_token="<s>", bos_id=BOS,
    eos_token="</s>", eos_id=EOS, sep_token=None, sep_id=None, lang_tags=[],
)  # fmt: skip


class _Ours(Vocabulary):
    """The vocabulary that the batches were made with: only its size and special ids matter."""

    def add_tokens(self, tokens: list[str]) -> None:
        self._itos = ["<pad>", "<unk>", "<s>", "</s>", *(f"piece{i}" for i in range(4, sizes["vocab_size"]))]
        self._stoi = {token: i for i, token in enumerate(self._itos)}


half = {
    "type": "transformer", "num_layers": sizes["num_layers"], "num_heads": sizes["num_heads"],
    "hidden_size": sizes["d_model"], "ff_size": sizes["d_ff"], "dropout": 0.0, "layer_norm": "pre",
    "embeddings": {"embedding_dim": sizes["d_model"], "scale": True, "dropout": 0.0},
}  # fmt: skip
torch.manual_seed(work["seed"])
vocabulary = _Ours([], special)
config = {
    "encoder": half,
    "decoder": half,
    "tied_embeddings": True,
    "tied_softmax": True,
    "initializer": "xavier_uniform",
}
model = build_model(config, vocabulary, vocabulary).eval()


@torch.inference_mode()
def translate(model: Any, batch: dict[str, Any]) -> None:
    """Search with a beam for as many tokens as asked."""
    width = max(map(len, batch["src"]))
    src = torch.tensor([ids + [PAD] * (width - len(ids)) for ids in batch["src"]])
    src_mask = (src != PAD)[:, None]
    lengths = torch.tensor(list(map(len, batch["src"])))
    encoded, hidden, *_ = model(return_type="encode", src=src, src_length=lengths, src_mask=src_mask)
    length = batch["length"]
    beam_search(model, BEAMS, encoded, hidden, src_mask, length, alpha=1.0, min_output_length=length)


serve({"float32": both(work, partial(translate, model))}, ["torch", "joeynmt"])
