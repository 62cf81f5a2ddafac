"""Worlds that a model acts in, turn by turn."""
