"""The commands behind `taut`. Each imports what it needs when it runs: help and errors never wait for torch."""
