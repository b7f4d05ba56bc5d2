"""Which samples are unlike what a model knows: no candidate is near.

A sample of none of the candidates is far from all of their centers. How far samples of a candidate
are depends on features and preprocessing, and rare directions make some samples far from
everything. So the distance is compared with that to the mean m of the centers of seen classes,

    novelty(x) = sum_j p_j ||z - c_j||^2 / ||z - m||^2,

with the preprocessed sample z, the centers c_j of the candidates and their probabilities p_j: a
sample between several candidates is farther from its own than the nearest center tells. It depends
on differences of centers only: a shift that all have in common, as of classes that were predicted
from others, does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..arrays import Array, epsilon, namespace, place_like, softmax, take_rows
from ..inference.predict import ProbabilityMixin
from ..inference.scorer import LinearScores, Scorer
from ..streaming.accept import accept_chunks
from .state import AnyShotState


class NoveltyMixin(ProbabilityMixin):
    """Samples of none of the candidates."""

    @accept_chunks
    def novelty(self, X: Any) -> Array:
        """Return how unlike all candidates each sample is.

        It tells samples of none of the candidates from others better than low probabilities do:
        probabilities compare candidates with each other, and add up to 1 for any sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Expected squared distance to the center of the class of a sample, divided by that to
            the mean center of seen classes: about 1 if no candidate is nearer than the mean, and
            less for others, even below 0 where refined scores say more than distances. What
            samples of the candidates reach depends on the data and on the number of training
            samples, so take a threshold from samples of known classes that were not in `fit`, such
            as ``np.quantile(model.novelty(X_known), 0.95)``.
        """
        X = self._validate(X)
        scorer = make_novelty(self.state_, self.scorer_.temperature or 1.0)
        return namespace(X).concat(list(scorer.finite_blocks(X)))


def make_novelty(state: AnyShotState, temperature: float) -> Scorer:
    """Return a scorer whose blocks are the novelty of each sample."""
    labels, middle = state.find_candidates(), find_middle(state)
    centers, offsets, penalties = state.compare(labels)
    form = LinearScores.from_distances(centers - middle).subtract(offsets)

    def compute(form: LinearScores, X: Array) -> Iterator[Array]:
        Z = state.prepare(X)
        away = Z - namespace(Z).astype(place_like(middle, Z), Z.dtype)
        return expect_distances(form, away, penalties, temperature)

    return Scorer(labels, form, compute=compute)


def find_middle(state: AnyShotState) -> Array:
    """Return the mean center of classes with samples; of all known classes if these are too few."""
    evidence, xp = state.evidence, namespace(state.centers)
    used = (evidence.counts > 0) & ~evidence.is_foreign
    used = used if used.sum() > 1 else ~evidence.is_hidden
    return xp.mean(take_rows(state.centers, np.flatnonzero(used)), axis=0)


def expect_distances(
    form: LinearScores, Z: Array, penalties: Array, temperature: float
) -> Iterator[Array]:
    """Yield the mean of ||z - c_j||^2 / ||z||^2 under the probabilities, for blocks of rows of Z.

    Penalties change probabilities, but not distances.
    """
    xp, start = namespace(Z), 0
    penalties = xp.astype(place_like(penalties, Z), Z.dtype)
    squares = namespace(form.centers).sum(form.centers * form.centers, axis=1)
    least = epsilon(Z) * (float(namespace(squares).max(squares)) or 1.0)
    for scores in form.blocks(Z):
        block = Z[start : start + scores.shape[0], :]
        start += scores.shape[0]
        lengths = xp.sum(block * block, axis=1)
        lengths = xp.where(lengths > least, lengths, xp.full_like(lengths, least))
        P = softmax((scores - penalties) / temperature)
        yield 1 - xp.sum(P * scores, axis=1) / lengths
