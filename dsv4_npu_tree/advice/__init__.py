"""Which tree shape at which batch size: a model, not a measurement."""
