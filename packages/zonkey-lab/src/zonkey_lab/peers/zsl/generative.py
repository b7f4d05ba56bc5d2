"""Base class of generative peers: synthesized samples, and a linear classifier on them.

A trained generator draws samples of any class from its prototype. The classifier is trained for
the candidates at hand: on synthesized samples of unseen classes, and on real ones of seen classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from zonkey.arrays import Array
from zonkey.inference.scorer import LinearScores, Scorer
from zonkey.optional import torch_device
from zonkey.parameters import Count
from zonkey.prototypes import Prototypes
from zonkey.samples import sample_blocks

from ..base import attribute, load_torch, parameter
from ..networks import (
    Arrays,
    BatchLearner,
    arrays_of,
    network_of,
    part_of,
    root_mean_square,
    to_array,
    torch_for,
)
from .base import NetworkPeer, PeerTask, ZeroShotLearner, refuse_method

_FEW = 10  # synthesized samples per class that decide when to stop
_RIDGE = 0.015  # of each class of the classifier, for samples of mean squared length 1
_STEPS = 100  # of L-BFGS at most
_LARGEST_LOG = 10.0  # of a variance, either sign

Networks = Mapping[str, Any]
Kept = dict[str, tuple[str, ...]]  # networks of the fitted model: their activations


class GenerativeLearner(BatchLearner, ZeroShotLearner):
    """Networks in training that synthesize samples of a class from its prototype.

    A subclass sets `networks`, `optimizers` and `n_noise` in `__init__`, and adds `step` and
    `synthesize`. Features are shifted by their minima, so that a ReLU can synthesize features of
    either sign. They are scaled to mean square 1, all alike, or into [0, 1] if the peer has a
    `scaling`. Prototypes are scaled to mean square 1: the size of the noise, and of inputs that
    networks learn from quickly.
    """

    kept: ClassVar[Kept]
    n_noise: int

    def __init__(self, torch: Any, device: str, task: PeerTask, peer: GenerativePeer) -> None:
        low = task.X.min(axis=0)
        self.scales = {
            "low": low,
            "size": _measure_features(task.X - low, getattr(peer, "scaling", None)),
            "of_prototypes": self.measure_prototypes(task.Y),
        }
        X, self.min_steps = scale_features(task.X, self.scales), peer.min_steps
        super().__init__(torch, device, X, peer.schedule.batch_size)
        self.Y = self.tensor(task.Y / self.scales["of_prototypes"])
        self.codes, self.seed = self.positions(task.codes), task.seed

    @staticmethod
    def measure_prototypes(Y: np.ndarray) -> np.ndarray:
        """Return the number that prototypes are divided by, as an array."""
        return root_mean_square(Y)

    def within_variance(self) -> float:
        """Return the mean variance of a feature within classes, 1 if there is none."""
        sums = self.torch.zeros(len(self.Y), self.X.shape[1], device=self.device)
        means = sums.index_add_(0, self.codes, self.X) / self.torch.bincount(self.codes)[:, None]
        return float(((self.X - means[self.codes]) ** 2).mean()) or 1.0

    def batch(self, rows: np.ndarray) -> tuple[Any, Any]:
        """Return the samples at these positions, and the prototypes of their classes."""
        places = self.positions(rows)
        return self.X[places], self.Y[self.codes[places]]

    @staticmethod
    def synthesize(torch: Any, networks: Networks, Y: Any, noise: Any) -> Any:
        """Return a sample for each row of Y and of noise, in the space of the classifier."""
        raise NotImplementedError

    @staticmethod
    def encode(torch: Any, networks: Networks, X: Any, noise: Any = None) -> Any:
        """Return real samples in the space of the classifier; no noise: what is predicted from."""
        del torch, networks, noise
        return X

    def classify(self, Z: Any, codes: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and biases of the classifier that the peer uses."""
        return softmax_regression(self.torch, Z, codes, len(Y))

    def scores(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Return the scores of the classifier, learned from a few synthesized samples per class."""
        torch, networks = self.torch, self.networks
        noise = self.noise(np.random.default_rng(self.seed), len(Y) * _FEW, self.n_noise)
        with torch.no_grad():
            repeated = self.tensor(np.repeat(Y / self.scales["of_prototypes"], _FEW, axis=0))
            Z = self.synthesize(torch, networks, repeated, noise)
            found = self.encode(torch, networks, self.tensor(scale_features(X, self.scales)))
        W, b = self.classify(Z, np.repeat(np.arange(len(Y)), _FEW), Y)
        return to_array(found) @ W.T + b

    def export(self) -> dict[str, Any]:
        """Return the fitted attributes by name."""
        weights = {
            f"{name}/{key}": value
            for name in self.kept
            for key, value in arrays_of(self.networks[name]).items()
        }
        synthesis = {"seed": self.seed, "n_noise": self.n_noise}
        return {"weights_": {**weights, **self.scales}, "_synthesis": synthesis}


def _measure_features(X: np.ndarray, scaling: str | None) -> np.ndarray:
    """Return what features, whose minima are 0, are divided by."""
    if scaling is None:
        return root_mean_square(X)
    ranges = X.max(axis=0)
    if scaling == "all":
        ranges = np.full_like(ranges, ranges.max())
    return np.where(ranges > 0, ranges, np.float32(1))


class GenerativePeer(NetworkPeer):
    """A peer that classifies by synthesized samples.

    It adds `_kind`, the class of its learner. If it classifies in another space
    than that of the samples, it overrides `_map`.

    Parameters
    ----------
    min_steps : int, default=100
        Least number of steps per epoch: few samples are passed several times, so that they are
        trained on as long as those of the publications. An epoch of CUB, the smallest set of most
        of them, has 111 batches of 64.
    random_state : int, RandomState or None, default=None
        Seed of initial weights, batches, noise and held-out classes.
    """

    _kind: ClassVar[type[Any]]
    # Samples of a seen class, as a share of those of an unseen one: real ones are repeated, with
    # other noise. None: each real sample is taken once, and classes have equal weight.
    _seen_share: ClassVar[float | None] = None
    _compares_distances = False

    n_synthetic: int = parameter(default=300, within=Count())
    min_steps: int = parameter(default=100, within=Count())
    _samples: Arrays = attribute()
    _synthesis: dict[str, Any] = attribute()

    with_classes = refuse_method(
        "The classifier depends on all candidates. Fit again, with prototypes of the new classes."
    )
    explain = refuse_method("The classifier depends on all candidates, not on the class alone.")

    def _learner(self, task: PeerTask) -> GenerativeLearner:
        return self._kind(*load_torch(self), task, self)

    def _learn(self, task: PeerTask) -> dict[str, Any]:
        learned = super()._learn(task)
        sizes = np.bincount(task.codes)
        places = np.arange(len(task.codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = places < self.n_synthetic
        settings = {"n_synthetic": int(self.n_synthetic), "device": self.schedule.device}
        return {
            **learned,
            "_samples": {"X": task.X[rows], "codes": task.codes[rows]},
            "_synthesis": {**learned["_synthesis"], **settings},
        }

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        torch = torch_for(f"The classifier of {type(self).__name__}")
        Z, codes = self._training_set(torch, known)
        W, b = self._classifier(torch, Z, codes, known)
        return LinearScores((W / 2).astype(dtype), (-b).astype(dtype))

    def _training_set(self, torch: Any, known: Prototypes) -> tuple[Any, np.ndarray]:
        """Return samples in the space of the classifier, and which candidate each is of."""
        kind, settings = self._kind, self._synthesis
        device, n = _device_like(settings["device"]), settings["n_synthetic"]
        rng = np.random.default_rng([settings["seed"], n])
        networks = {
            name: network_of(torch, device, part_of(self.weights_, name), activations)
            for name, activations in kind.kept.items()
        }

        def tensor(array: np.ndarray) -> Any:
            return torch.as_tensor(np.asarray(array, np.float32), device=device)

        def noise(n_rows: int) -> Any:
            return tensor(rng.standard_normal((n_rows, settings["n_noise"]), np.float32))

        is_seen = np.isin(known.labels, self._scorer.seen)
        unseen = np.repeat(np.flatnonzero(~is_seen), n)
        rows, seen = self._real_rows(known.labels, is_seen)
        real = scale_features(self._samples["X"][rows].astype(np.float32), self.weights_)
        with torch.no_grad():
            Y = tensor(known.matrix[unseen] / np.float32(self.weights_["of_prototypes"]))
            drawn = kind.synthesize(torch, networks, Y, noise(len(unseen)))
            taken = kind.encode(torch, networks, tensor(real), noise(len(rows)))
            return torch.cat([drawn, taken]), np.concatenate([unseen, seen])

    def _real_rows(self, labels: np.ndarray, is_seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of real samples to train on, and which candidate each is of."""
        positions = np.flatnonzero(is_seen)
        codes = np.searchsorted(self._scorer.seen, labels[positions])
        parts = [np.flatnonzero(self._samples["codes"] == code) for code in codes]
        if self._seen_share is not None:
            n = max(1, int(self._seen_share * self._synthesis["n_synthetic"]))
            parts = [np.resize(part, n) for part in parts]
        rows = np.concatenate([np.empty(0, np.intp), *parts])
        return rows, np.repeat(positions, [len(part) for part in parts])

    def _classifier(
        self, torch: Any, Z: Any, codes: np.ndarray, known: Prototypes
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and biases of the candidates."""
        balanced = self._seen_share is None
        return softmax_regression(torch, Z, codes, len(known), balanced=balanced)

    def _map(self, X: np.ndarray) -> np.ndarray:
        """Return samples, whose features are scaled, in the space of the classifier."""
        return X

    def _map_samples(self, X: Array) -> Array:
        return self._map(scale_features(np.asarray(X), self.weights_))

    @property
    def scorer_(self) -> Scorer:
        """Everything that prediction reads."""
        # To compare in another dtype would train the classifier again.
        return replace(super().scorer_, compare=None)

    def _score_blocks(self, form: Any, X: Array) -> Iterator[Array]:
        for rows in sample_blocks(X, copies=8):
            yield from form.blocks(self._map_samples(X[rows]))


def _device_like(device: str) -> str:
    """Return the device of the fit; where a loaded model has no such device, any."""
    try:
        return torch_device(device)
    except ValueError:
        return torch_device("auto")


def scale_features(X: np.ndarray, scales: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return features shifted by their minima and scaled to mean square 1, as for training."""
    low, size = (scales[name].astype(X.dtype, copy=False) for name in ("low", "size"))
    return (X - low) / size


def softmax_regression(
    torch: Any,
    Z: Any,
    codes: np.ndarray,
    n_classes: int,
    *,
    balanced: bool = True,
    ridge: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights W (one row per class) and biases b of logits W z + b.

    They minimize the mean over classes of the mean cross-entropy, plus a small ridge penalty: the
    many synthesized samples of a class must not outweigh the few real ones of another. Without
    `balanced`, the mean is over samples. Samples are centered and scaled to mean squared length 1
    meanwhile, so that the penalty acts alike in every space. By default it is a mean over classes
    too: a class counts as little in the mean as there are many, and so must its weights, or many
    classes could not be distinguished.
    """
    ridge = _RIDGE / n_classes if ridge is None else ridge
    center = Z.mean(dim=0)
    Z = Z - center
    length = max(float((Z * Z).sum(dim=1).mean().sqrt()), 1e-12)
    Z = Z / length
    targets = torch.as_tensor(codes, device=Z.device)
    counts = torch.bincount(targets, minlength=n_classes).to(Z.dtype)
    shares = 1 / counts if balanced else None
    W = torch.zeros(n_classes, Z.shape[1], device=Z.device, requires_grad=True)
    b = torch.zeros(n_classes, device=Z.device, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [W, b], max_iter=_STEPS, tolerance_change=1e-6, line_search_fn="strong_wolfe"
    )

    def objective() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(Z @ W.T + b, targets, weight=shares)
        loss = loss + ridge / 2 * (W * W).sum()
        loss.backward()
        return loss

    optimizer.step(objective)
    with torch.no_grad():
        W = W / length
        return to_array(W), to_array(b - W @ center)


def means_and_logs(moments: Any) -> tuple[Any, Any]:
    """Return the means and log-variances that the rows hold; no variance can overflow."""
    mean, log_variance = moments.chunk(2, dim=1)
    return mean, log_variance.clamp(-_LARGEST_LOG, _LARGEST_LOG)


def normal_samples(torch: Any, moments: Any, noise: Any) -> Any:
    """Return draws from normal distributions, of which rows hold means and log-variances."""
    mean, log_variance = means_and_logs(moments)
    return mean + torch.exp(log_variance / 2) * noise


def divergence(torch: Any, moments: Any) -> Any:
    """Return the mean KL divergence of such distributions from the standard normal one."""
    mean, log_variance = means_and_logs(moments)
    terms = mean * mean + torch.exp(log_variance) - 1 - log_variance
    return terms.sum(dim=1).mean() / 2
