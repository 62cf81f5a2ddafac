"""Rewards that a user brings: functions in processes of their own, verifiers, reward models."""
