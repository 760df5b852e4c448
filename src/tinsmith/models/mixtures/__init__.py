"""Mixtures of experts in foreign formats: their settings, and weights of all experts in one tensor (floor F2)."""
