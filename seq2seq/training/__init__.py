"""Training with Lightning: the only code that imports it."""
