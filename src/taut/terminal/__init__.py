"""What a terminal shows: a run while it trains, runs in tables, replies token by token."""
