"""Tinker service over HTTP (floor F6)."""
