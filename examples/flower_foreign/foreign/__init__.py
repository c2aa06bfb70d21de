"""A Flower app with a model, data and training of its own."""
