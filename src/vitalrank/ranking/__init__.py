"""Top-N over the whole catalogue, in blocks: used by evaluation and serving."""
