"""Our training step, in float32 and in bfloat16."""

import sys
from functools import partial

import torch
from train_protocol import load_batches, serve

from seq2seq.allocator import keep_freed_memory
from seq2seq.data.tokenizer import PAD
from seq2seq.models import ARCHITECTURES, build_model
from seq2seq.training.loss import smoothed_cross_entropy
from seq2seq.training.optim import OptimConfig, build_optimizer

# The peers have these sizes too; our defaults may change.
SIZES = {
    "transformer": {"d_model": 128, "d_ff": 256, "num_heads": 4, "num_layers": 4, "dropout": 0.3},
    "bahdanau": {"embedding_dim": 256, "hidden_size": 256, "attention_size": 256, "dropout": 0.2},
}

keep_freed_memory()  # as the program does
file, name, vocab_size, seed = sys.argv[1:]
optim = OptimConfig(label_smoothing=0.1)


def contestant(amp: bool) -> partial[None]:
    """Return a training step on a model of its own."""
    torch.manual_seed(int(seed))
    model = build_model(ARCHITECTURES[name].config(**SIZES.get(name, {})), int(vocab_size))
    return partial(step, model, build_optimizer(model.parameters(), optim), amp)


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, amp: bool, batch: dict[str, torch.Tensor]) -> None:
    """Make one update."""
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        logits = model(batch["src"], batch["src_lengths"], batch["tgt_in"]).logits
        loss, _ = smoothed_cross_entropy(logits, batch["tgt_out"], PAD, optim.label_smoothing)
    (loss / (batch["tgt_out"] != PAD).sum()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), optim.clip_norm)
    optimizer.step()
    optimizer.zero_grad()


serve({"float32": contestant(False), "bf16_mixed": contestant(True)}, load_batches(file), ["torch"])
