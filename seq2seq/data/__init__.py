"""From text files to batches of token ids: corpus, tokenizer, store, prepare, batch."""
