"""Data that arrive in chunks: reductions, checkpoints, Dask."""
