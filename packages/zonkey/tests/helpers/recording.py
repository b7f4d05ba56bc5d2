"""A step of a pipeline that tells what it was fitted with."""

from typing import ClassVar

from zonkey.preprocessing import WithinClassWhitener


def recording():
    """Return a step that uses labels and keeps what it saw, whoever clones it."""

    class Recording(WithinClassWhitener):
        fits: ClassVar = []
        transformed: ClassVar = []

        def fit(self, X, y):
            self.fits.append((X, y))
            return super().fit(X, y)

        def transform(self, X):
            self.transformed.append(X)
            return super().transform(X)

    return Recording()
