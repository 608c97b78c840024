"""The Transformer of Hugging Face transformers, as Marian, random weights of our sizes; Adam as its Trainer has it."""

import sys
from functools import partial

import torch
import torch.nn.functional as F
from train_protocol import load_batches, serve
from transformers import MarianConfig, MarianMTModel

PAD, BOS, EOS = 0, 2, 3
file, _, vocab_size, seed = sys.argv[1:]


def contestant(attention: str, amp: bool) -> partial[None]:
    """Return a training step on a model of its own."""
    torch.manual_seed(int(seed))
    config = MarianConfig(
        vocab_size=int(vocab_size),
        d_model=128,
        encoder_layers=4,
        decoder_layers=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        dropout=0.3,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        max_position_embeddings=512,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        scale_embedding=True,
        use_cache=False,
        attn_implementation=attention,
    )
    model = MarianMTModel(config).train()
    adam = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-9, fused=True)
    return partial(step, model, adam, amp)


def step(model: torch.nn.Module, adam: torch.optim.Optimizer, amp: bool, batch: dict[str, torch.Tensor]) -> None:
    """Make one update."""
    src, targets = batch["src"], batch["tgt_out"]
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        logits = model(input_ids=src, attention_mask=(src != PAD).long(), decoder_input_ids=batch["tgt_in"]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, label_smoothing=0.1)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adam.step()
    adam.zero_grad()


steps = {
    f"{'bf16' if amp else 'float32'} {attention}": contestant(attention, amp)
    for attention in ("eager", "sdpa")
    for amp in (False, True)
}
serve(steps, load_batches(file), ["torch", "transformers"])
