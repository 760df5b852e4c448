"""GGUF files: one file with a model's shape, weights, tokenizer and chat template (floor F2)."""
