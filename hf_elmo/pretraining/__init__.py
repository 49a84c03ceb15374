"""Pretraining of biLMs: text to prepared shards, shards to batches, and the training itself."""
