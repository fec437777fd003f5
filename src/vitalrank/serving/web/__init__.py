"""The HTTP server: a model behind JSON endpoints, metrics and a page for people."""
