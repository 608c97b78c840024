"""Validation: the loss and the translations of the validation set, under the weights as they are."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from seq2seq.data.batch import collate, epoch_batches
from seq2seq.data.prepare import PreparedCorpus
from seq2seq.data.store import PairStore
from seq2seq.data.tokenizer import EOS, PAD
from seq2seq.evaluation import corpus_scores
from seq2seq.inference.bundle import Preprocessing
from seq2seq.inference.search import SearchConfig
from seq2seq.inference.translator import Translator
from seq2seq.models.interface import Seq2Seq
from seq2seq.training.loss import smoothed_cross_entropy

_NO_LIMIT = 2**31 - 1


class Sample(NamedTuple):
    """A sentence to look at."""

    src: str
    ref: str
    hyp: str


class Validation(NamedTuple):
    """What a validation found.

    `loss` is the cross entropy per target token, without label smoothing; perplexity its exponential. The translations
    are greedy (beam size 1), so these scores are a little below those of the final test.
    """

    loss: float
    perplexity: float
    bleu: float
    chrf: float
    samples: list[Sample]

    def metrics(self) -> dict[str, float]:
        """Return the numbers by name."""
        return {"loss": self.loss, "perplexity": self.perplexity, "bleu": self.bleu, "chrf": self.chrf}


class Validator:
    """Validates a model on a corpus, as often as it is called."""

    def __init__(
        self, corpus: PreparedCorpus, preprocessing: Preprocessing, search: SearchConfig, *, batch_tokens: int
    ) -> None:
        self.store = corpus.valid
        self.tokenizer = corpus.tokenizer
        self.preprocessing = preprocessing
        self.search = search
        self.batch_tokens = batch_tokens
        self.sources = texts(self.store, "src")
        self.references = texts(self.store, "tgt")

    def __call__(self, model: Seq2Seq[Any, Any], samples: int = 0) -> Validation:
        """Validate a model in the mode and on the device it is in; it is left as it was."""
        translator = Translator(model, self.tokenizer, self.preprocessing, self.search, batch_size=128, warn=False)
        hypotheses = [translation.text for translation in translator.translate(self.sources)]
        scores = corpus_scores(hypotheses, self.references, lowercase=self.preprocessing.lowercase, ter=False)
        loss = self.loss(model)
        return Validation(
            loss,
            math.exp(min(loss, 700.0)),  # beyond it the number has no float
            scores["bleu"],
            scores["chrf"],
            [Sample(*sample) for sample in zip(self.sources, self.references, hypotheses, strict=True)][:samples],
        )

    @torch.inference_mode()
    def loss(self, model: Seq2Seq[Any, Any]) -> float:
        """Return the cross entropy per target token, in nats."""
        was_training = model.training
        model.eval()
        device = next(model.parameters()).device
        longest_src = min(self.preprocessing.max_source_tokens + 1, model.max_source_length or _NO_LIMIT)
        longest_tgt = model.max_target_length or _NO_LIMIT
        total, tokens = 0.0, 0
        for pairs in epoch_batches(
            np.minimum(self.store.src_lengths, longest_src),
            np.minimum(self.store.tgt_lengths, longest_tgt),
            batch_tokens=self.batch_tokens,
            seed=0,
            epoch=0,
        ):
            src = [_cut(self.store.src(i), longest_src) for i in pairs]
            tgt = [_cut(self.store.tgt(i), longest_tgt) for i in pairs]
            batch = collate(src, tgt, pairs)
            logits = model(batch.src.to(device), batch.src_lengths.to(device), batch.tgt_in.to(device)).logits
            total += float(smoothed_cross_entropy(logits, batch.tgt_out.to(device), PAD, 0.0)[1])
            tokens += batch.num_tgt_tokens
        model.train(was_training)
        return total / tokens


def _cut(ids: NDArray[np.integer], longest: int) -> NDArray[np.integer]:
    return ids if len(ids) <= longest else np.append(ids[: longest - 1], EOS)


def texts(store: PairStore, side: str) -> list[str]:
    """Return all sentences of the "src" or "tgt" side as they were read."""
    read = store.src_text if side == "src" else store.tgt_text
    return [read(i) for i in range(len(store))]
