"""Criteria that a program checks."""
