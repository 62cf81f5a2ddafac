"""Taut: PPO for language models, with every token's update in view."""

__version__ = "0.1.0"
