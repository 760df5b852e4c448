"""Checks of any server against the Tinker protocol, by the official client alone."""
