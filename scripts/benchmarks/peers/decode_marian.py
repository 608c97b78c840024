"""Hugging Face generate on a Marian model, random weights of our sizes, its output length forced."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from decode_protocol import BEAMS, both, load_work, serve
from transformers import MarianConfig, MarianMTModel

PAD, BOS, EOS = 0, 2, 3
work = load_work()
sizes = work["config"]


def contestant(attention: str, dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    """Return the two modes of a model of its own."""
    torch.manual_seed(work["seed"])
    config = MarianConfig(
        vocab_size=sizes["vocab_size"],
        d_model=sizes["d_model"],
        encoder_layers=sizes["num_layers"],
        decoder_layers=sizes["num_layers"],
        encoder_ffn_dim=sizes["d_ff"],
        decoder_ffn_dim=sizes["d_ff"],
        encoder_attention_heads=sizes["num_heads"],
        decoder_attention_heads=sizes["num_heads"],
        activation_function="relu",
        max_position_embeddings=512,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        forced_eos_token_id=None,
        decoder_start_token_id=BOS,
        scale_embedding=True,
        attn_implementation=attention,
    )
    return both(work, partial(translate, MarianMTModel(config).to(dtype).eval()))


@torch.inference_mode()
def translate(model: Any, batch: dict[str, Any]) -> None:
    """Search with a beam for as many tokens as asked."""
    width = max(map(len, batch["src"]))
    src = torch.tensor([ids + [PAD] * (width - len(ids)) for ids in batch["src"]])
    found = model.generate(
        input_ids=src,
        attention_mask=(src != PAD).long(),
        num_beams=BEAMS,
        do_sample=False,
        min_new_tokens=batch["length"],
        max_new_tokens=batch["length"],
    )
    assert found.shape[1] == batch["length"] + 1


serve(
    {
        "float32 sdpa": contestant("sdpa", torch.float32),
        "float32 eager": contestant("eager", torch.float32),
        "bfloat16 sdpa": contestant("sdpa", torch.bfloat16),
    },
    ["torch", "transformers"],
)
