"""Decoder, weights, adapters and presets (floor F2)."""
