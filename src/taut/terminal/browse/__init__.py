"""A run's steps, replies and tokens, walked through in a terminal: `taut show RUN --browse`."""
