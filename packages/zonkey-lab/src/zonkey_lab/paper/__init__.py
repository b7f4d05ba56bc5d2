"""The paper's experiments: run them, report on the records, show the demonstration."""

__all__: list[str] = []
