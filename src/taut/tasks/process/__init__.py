"""A process of its own for code that a user brings, which may hang, die or keep state there."""
