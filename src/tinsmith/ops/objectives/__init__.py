"""Losses: their formulas, settings and inputs, and how a step's tokens are added up."""
