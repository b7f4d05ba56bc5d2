"""EXEM: the visual exemplars of Changpinyo, Chao and Sha."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.svm import NuSVR

from zonkey.arrays import Array
from zonkey.bpl.kernels import PrototypeKernel
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Count, Flag, Interval
from zonkey.prototypes import Prototypes

from ..base import attribute, parameter
from .base import PeerTask, ProjectingPeer, SamplePeer, refuse_method


class EXEM(ProjectingPeer, SamplePeer):
    """Exemplars: support vector regression from prototypes to class means.

    Features are reduced to their principal components. For every component, nu support vector
    regression with the kernel exp(-gamma ||y - z||^2 / u), u the median squared distance between
    seen prototypes, predicts its mean over a class from the prototype of the class. The class with
    the nearest predicted mean e is predicted, by the squared distance

        sum_r (z_r - e_r)^2 / s_r^2,

    where z_r is component r of the sample and s_r its standard deviation within seen classes, the
    mean over classes (1NNs in the reference), or 1 (1NN). Seen classes, too, are compared at their
    predicted means.

    Differences from the reference: means are standardized over the seen classes before the
    regression, so that C is the same for all components and has no unit, and gamma is relative.

    Parameters
    ----------
    n_components : int, default=500
        Number of principal components, as in the reference; all of them if there are fewer.
    gamma : float, default=0.3
        Width >= 0 of the kernel. The reference chooses it by cross-validation; the default was
        chosen on held-out training classes of CUB.
    C : float, default=10.0
        Weight > 0 of the errors of the regression (lambda in the reference); chosen as gamma.
    nu : float, default=0.5
        Share in (0, 1] of classes that may lie outside the tube of the regression, at most. It is
        the default of LIBSVM; the reference chooses it by cross-validation.
    standardize : bool, default=True
        Whether distances are standardized.

    Attributes
    ----------
    components_ : ndarray of shape (n_features, n_components)
        Principal components as columns.
    mean_ : ndarray of shape (n_features,)
        Mean of the features.
    scales_ : ndarray of shape (n_components,)
        Standard deviations s_r, or ones.

    See Also
    --------
    ExemplarRegression : Ridge regression to the means, in closed form.
    SynC : Predicts classifiers instead of exemplars, by the same authors.

    References
    ----------
    S. Changpinyo, W.-L. Chao, F. Sha. Predicting visual exemplars of unseen classes for zero-shot
    learning. ICCV 2017.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import EXEM
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1], "snail": [-1, -1]}
    >>> X = [[0, 1], [1, 0], [-1, -1]]
    >>> model = EXEM(prototypes, standardize=False, candidates="all")
    >>> model.fit(X, ["horse", "tiger", "snail"]).predict([[0.9, 0.9]])
    array(['zebra'], dtype='<U5')
    """

    n_components: int = parameter(default=500, within=Count())
    gamma: float = parameter(default=0.3, within=Interval(0))
    C: float = parameter(default=10.0, within=Interval(0, open_below=True))
    nu: float = parameter(default=0.5, within=Interval(0, 1, open_below=True))
    standardize: bool = parameter(default=True, within=Flag("Use True, as the reference does."))

    embed = refuse_method("Samples have no point in the semantic space: exemplars are not linear.")

    components_: np.ndarray = attribute()
    mean_: np.ndarray = attribute()
    scales_: np.ndarray = attribute()
    _kernel: PrototypeKernel = attribute()
    _seen_matrix: np.ndarray = attribute()
    _weights: np.ndarray = attribute()
    _offsets: np.ndarray = attribute()

    def _learn(self, task: PeerTask) -> dict[str, Any]:
        Y, dtype = task.Y, task.X.dtype
        mean, components = _find_principal(task.X, int(self.n_components))
        Z = (task.X - mean) @ components
        reduced = replace(task, X=Z)
        exemplars = reduced.means
        scales = _within_deviations(reduced) if self.standardize else np.ones(Z.shape[1])
        kernel = PrototypeKernel.from_vectors(Y, "rbf", self.gamma)
        K = np.asarray(kernel.compare(Y, Y, np.arange(len(Y))))
        weights, offsets = self._fit_regression(K, exemplars)
        return {
            "components_": components.astype(dtype),
            "mean_": mean.astype(dtype),
            "scales_": scales.astype(dtype),
            "_kernel": kernel,
            "_seen_matrix": Y,
            "_weights": weights,
            "_offsets": offsets,
        }

    def _fit_regression(self, K: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return weights (m x r) and offsets (r,) that predict targets (m x r)."""
        center, unit = targets.mean(axis=0), targets.std(axis=0)
        weights = np.zeros_like(targets)
        offsets = np.zeros(targets.shape[1])
        machine = NuSVR(kernel="precomputed", C=float(self.C), nu=float(self.nu))
        for r in np.flatnonzero(unit > 0):
            machine.fit(K, (targets[:, r] - center[r]) / unit[r])
            weights[machine.support_, r] = machine.dual_coef_[0]
            offsets[r] = machine.intercept_[0]
        return weights * unit, center + offsets * unit

    def _exemplars(self, prototypes: Prototypes) -> np.ndarray:
        """Return the predicted means in the space of the components, float64."""
        Y, S = prototypes.matrix.astype(np.float64), self._seen_matrix
        K = np.asarray(self._kernel.compare(Y, S, np.arange(len(S))))
        return K @ self._weights + self._offsets

    def _project(self, prototypes: Prototypes) -> Array:
        exemplars = self._exemplars(prototypes) @ self.components_.astype(np.float64).T
        return (exemplars + self.mean_).astype(self.mean_.dtype)

    def _map_samples(self, X: Array) -> Array:
        """Return standardized components."""
        dtype = X.dtype
        M = self.components_.astype(dtype, copy=False) / self.scales_.astype(dtype, copy=False)
        return (X - self.mean_.astype(dtype, copy=False)) @ M

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        centers = self._exemplars(known) / self.scales_.astype(np.float64)
        return LinearScores.from_distances(centers.astype(dtype))

    def _get_learned(self) -> np.ndarray:
        return self.components_


def _find_principal(X: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the first n principal components (d x n), those with variance."""
    mean = X.mean(axis=0, dtype=np.float64)
    centered = X - mean
    d = X.shape[1]
    scatter = centered.T @ centered
    values, vectors = eigh(scatter, subset_by_index=[max(0, d - n), d - 1])
    kept = values > d * np.finfo(np.float64).eps * values[-1]
    kept[-1] = True
    vectors = vectors[:, kept][:, ::-1]
    # The sign of a component is arbitrary.
    largest = np.abs(vectors).argmax(axis=0)
    return mean, vectors * np.where(vectors[largest, np.arange(vectors.shape[1])] < 0, -1, 1)


def _within_deviations(task: PeerTask) -> np.ndarray:
    """Return the standard deviation within classes, the mean over classes; 1 where it is zero."""
    residuals = task.X - task.means[task.codes]
    deviations = np.sqrt(replace(task, X=residuals * residuals).means).mean(axis=0)
    negligible = deviations <= np.finfo(np.float64).eps ** 0.5 * np.abs(task.X).max()
    return np.where(negligible, 1.0, deviations)
