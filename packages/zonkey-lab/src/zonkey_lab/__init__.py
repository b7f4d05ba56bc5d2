"""The laboratory of zonkey: compared systems, the paper's experiments, benchmark data."""
