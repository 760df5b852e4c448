"""F2: the decoder, its weights, adapters and presets."""
