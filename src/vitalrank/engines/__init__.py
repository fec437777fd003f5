"""Engines: where a model, a sampler and a loss meet and rows are updated."""
