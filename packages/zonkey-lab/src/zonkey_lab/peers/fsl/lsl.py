"""LSL: low-shot learning by shrinking and hallucinating features (Hariharan and Girshick)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from zonkey.config import rows_per_block
from zonkey.parameters import Count, Interval

from ..base import TrainedMixin, attribute, identify_training, load_torch, parameter, unit_rows
from ..convex import linear_classifiers, softmax_loss
from ..networks import (
    Arrays,
    BatchLearner,
    apply_layers,
    arrays_of,
    fast_products,
    layers,
    seed_networks,
    zero_layers,
)
from ..training import Training, count_batches
from .base import BaseSamples, FewShotPeer, Support, center_rows

_GENERATOR = ("relu", "relu", "linear")
_DROP, _MOST_DROPS = 0.1, 2  # of the learning rate, with a given number of steps
_CURVATURE = 0.1  # of the loss of a sample; it affects the speed only


class LSL(TrainedMixin, FewShotPeer):
    """Logistic regression on shots and on samples that analogies with base classes hallucinate.

    Let x be features, centered by the mean of the base samples and of unit length.

    1. Shrinking: h(x) = x + V x + v and a softmax classifier of the m base classes minimize the
       mean of

           -log p_y + sgm ||p - e_y||^2 ||h||^2,     p = softmax(C h + c),

       where e_y is the one-hot vector of class y. The second term is the squared length of the
       gradient of the first with respect to C (SGM): features from which the classifier cannot
       learn more after it has seen few of them.
    2. Analogies: k-means finds `n_clusters` centers in each base class. For two centers a, b of a
       class, the two centers c, d of another class are sought whose displacement d - c has the
       largest cosine with b - a. Those with a positive cosine are quadruples a : b = c : d.
    3. Hallucination: the generator G(a, c, d) = a + d - c + f(a, c, d), with a network f of three
       layers, minimizes the mean over quadruples of

           error_weight ||b - G||^2 - log softmax(C G + c)_y,     y the class of a and b.

    4. Each novel class with fewer than `n_synthetic` shots is filled up with G(h(x), c, d): a
       random shot x, and two random centers c, d of a random base class. Logistic regression
       minimizes the mean of -log softmax(W h + w)_y + weight_decay / 2 ||W||^2 over shots and
       hallucinated samples. `decision_function` returns W h + w.

    Differences from the publication:

    - SGM regularizes a linear map of fixed features, not a convolutional network. V and v begin
      at 0.
    - f is added to the analogy a + d - c and begins at 0. In the publication, G = f, with a last
      ReLU. Centered features have both signs.
    - The squared error is summed over features, not averaged: features have unit length.
    - c and d are never the same center. The classifier is that of novel classes only, and it is
      found by a quasi-Newton method instead of stochastic gradients.

    Parameters
    ----------
    base : BaseSamples, default=None
        Samples of base classes. None: the support set takes their place.
    n_clusters : int, default=10
        Number of centers per base class; a class with no more samples has each as a center. The
        publication has 100 for about 1,300 samples per class. Mining takes time proportional to
        the fourth power.
    n_hidden : int, default=512
        Number of units of both hidden layers of f. 512 as in the publication.
    n_steps : int or None, default=None
        Number of steps of the generator, rounded up to whole passes; the learning rate falls to a
        tenth after each third of them, as in the authors' code, which has 120,000. None: it takes
        `max_iter` passes, at a constant rate.
    sgm : float or None, default=0.02
        Weight >= 0 of the squared gradient magnitude. 0.02 as in the authors' examples. None:
        h(x) = x; the classifier of base classes is trained without the second term.
    error_weight : float, default=10.0
        Weight >= 0 of the squared error of G. 10 as in the publication.
    n_synthetic : int, default=20
        Hallucinate until a class has so many samples, shots included; 0: never. The authors'
        examples have 5; 20 is chosen here, with one shot of validation classes of
        mini-ImageNet.
    weight_decay : float, default=1e-3
        Penalty > 0 of logistic regression. 1e-3 as in the authors' examples.
    training : Training, default=None
        Both parts are trained so, and do not stop early. The authors' code has 90 epochs for
        features and classifier, 128 quadruples per step, and gradients with momentum.
    random_state : int, RandomState or None, default=None
        Seed of hallucinated samples; `BaseSamples` have their own for all else.

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
        Weights of the centered features of unit length: W (I + V).
    intercept_ : ndarray of shape (n_classes,)
        Intercepts.
    n_iter_ : int
        Number of epochs of features and classifier.
    loss_curve_ : list of float
        Mean loss of the generator in each epoch; empty without analogies.

    See Also
    --------
    PPA : Also learns from all base classes at once, to predict weights.
    DistributionCalibration : Draws samples from Gaussian distributions of similar base classes.

    References
    ----------
    B. Hariharan, R. Girshick. Low-shot visual recognition by shrinking and hallucinating features.
    ICCV 2017.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.fsl import LSL, BaseSamples
    >>> from zonkey.testing import shots_problem
    >>> problem = shots_problem()
    >>> base = BaseSamples(problem.X_base, problem.y_base)
    >>> model = LSL(base, n_clusters=4, n_hidden=32, training=Training(max_iter=2), random_state=0)
    >>> model.fit(problem.X_support, problem.y_support).score(problem.X_query, problem.y_query)
    1.0
    """

    n_clusters: int = parameter(default=10, within=Count())
    n_hidden: int = parameter(default=512, within=Count())
    n_steps: int | None = parameter(default=None, within=Count(1, (None,)))
    sgm: float | None = parameter(default=0.02, within=Interval(0, also=(None,)))
    error_weight: float = parameter(default=10.0, within=Interval(0))
    n_synthetic: int = parameter(default=20, within=Count(0))
    weight_decay: float = parameter(default=1e-3, within=Interval(0, open_below=True))

    uses_torch = True
    stops_early = False  # held-out classes would need a logistic regression per episode

    coef_: np.ndarray = attribute()
    intercept_: np.ndarray = attribute()
    _center: np.ndarray = attribute()

    n_iter_: int = attribute()
    loss_curve_: list[float] = attribute()

    _own = Training(max_iter=10, n_iter_no_change=None, batch_size=128, learning_rate=1e-3)

    def _learn(self, support: Support) -> dict[str, Any]:
        base = support.base_or_own
        taught = base.learn_once(self._base_key(), lambda: self._teach(base))
        H = taught.shrink(center_rows(support.X, base.mean).astype(np.float32))
        rng = np.random.default_rng(support.seed)
        synthetic, codes = taught.hallucinate(H, support.codes, int(self.n_synthetic), rng)
        W, b = logistic_regression(
            np.concatenate([H, synthetic]),
            np.concatenate([support.codes, codes]),
            float(self.weight_decay),
        )
        dtype = support.X.dtype
        return {
            "coef_": (W + W @ taught.V.T).astype(dtype),
            "intercept_": (b + W @ taught.v).astype(dtype),
            "_center": base.mean,
            "n_iter_": int(self.schedule.max_iter),
            "loss_curve_": taught.losses,
        }

    def _scores(self, X: np.ndarray) -> np.ndarray:
        Z = center_rows(X, self._center)
        intercept = self.intercept_.astype(X.dtype, copy=False)
        return Z @ self.coef_.T.astype(X.dtype, copy=False) + intercept

    def _base_key(self) -> str:
        """Return the key of results of base classes, without the parameters of the last step."""
        last = {"n_synthetic": 0, "weight_decay": 1.0}
        return identify_training(type(self)(**{**self.get_params(deep=False), **last}))

    def _teach(self, base: BaseSamples) -> _Taught:
        torch, device = load_torch(self)
        with fast_products(torch, device):
            head = _Head(self, base)
            self._train(head, base.seed, int(self.schedule.max_iter))
            taught = head.make_taught()
            Z = taught.shrink(center_rows(base.X.astype(np.float32), base.mean))
            centers, codes = cluster_centers(Z, base.counts, int(self.n_clusters), base.seed)
            quadruples = analogies(centers, codes)
            taught.centers, taught.codes = centers, codes
            if len(quadruples):
                generator = _Generator(self, base.seed, head, centers, codes, quadruples)
                history = self._train(generator, base.seed, self._count_passes(len(quadruples)))
                taught.generator = arrays_of(generator.networks["f"])
                taught.losses = history.losses
        return taught

    def _count_passes(self, n_quadruples: int) -> int:
        """Return the number of passes of the generator over the quadruples."""
        if self.n_steps is None:
            return int(self.schedule.max_iter)
        return -(-int(self.n_steps) // count_batches(n_quadruples, self.schedule.batch_size))


@dataclass
class _Taught:
    """Results of base classes: the map h, centers, and a generator if there are analogies."""

    V: np.ndarray  # d x d, applied to rows from the right; all arrays are float32
    v: np.ndarray
    centers: np.ndarray
    codes: np.ndarray
    generator: Arrays
    losses: list[float]

    def shrink(self, Z: np.ndarray) -> np.ndarray:
        return Z + (Z @ self.V + self.v)

    def hallucinate(
        self, H: np.ndarray, codes: np.ndarray, n_wanted: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return samples (rows) and their classes, so that each class has `n_wanted` with H."""
        if not self.generator:
            return H[:0], codes[:0]
        shots = np.bincount(codes)
        missing = np.maximum(n_wanted - shots, 0)
        drawn = np.repeat(np.arange(len(shots)), missing)
        starts = np.cumsum(shots) - shots
        seeds = starts[drawn] + (rng.random(len(drawn)) * shots[drawn]).astype(int)
        first, second = draw_pairs(self.codes, len(drawn), rng)
        a, c, d = H[seeds], self.centers[first], self.centers[second]
        return generate(self.generator, a, c, d), drawn


class _Head(BatchLearner):
    def __init__(self, peer: LSL, base: BaseSamples) -> None:
        inputs = center_rows(base.X.astype(np.float32), base.mean)
        super().__init__(*load_torch(peer), inputs, peer.schedule.batch_size)
        self.sgm, self.codes = peer.sgm or 0.0, self.positions(base.codes)
        d, m = base.n_features, len(base.classes)
        with seed_networks(self.torch, base.seed):
            head = zero_layers(self.torch, (d, d), ("linear",))
            classifier = layers(self.torch, (d, m), ("linear",))
        self.networks = {"head": head.to(self.device), "classifier": classifier.to(self.device)}
        trained = ["classifier"] if peer.sgm is None else [*self.networks]
        self.optimizers = {"all": self.adam(*trained, learning_rate=peer.schedule.learning_rate)}

    def step(self, rows: np.ndarray, rng: np.random.Generator) -> Any:  # noqa: ARG002
        of = self.positions(rows)
        X, targets = self.X[of], self.codes[of]
        H = X + self.networks["head"](X)
        logs = self.networks["classifier"](H).log_softmax(dim=1)
        own = logs.gather(1, targets[:, None])[:, 0]
        p, p_own = logs.exp(), own.exp()
        # ||p - e_y||^2 = ||p||^2 - 2 p_y + 1
        squares = (p.square().sum(dim=1) - 2 * p_own + 1) * H.square().sum(dim=1)
        return self.descend("all", (self.sgm * squares - own).mean())

    def make_taught(self) -> _Taught:
        arrays = arrays_of(self.networks["head"])
        nothing = arrays["W0"][:0]
        return _Taught(arrays["W0"], arrays["b0"], nothing, np.arange(0), {}, [])


class _Generator(BatchLearner):
    def __init__(
        self,
        peer: LSL,
        seed: int,
        head: _Head,
        centers: np.ndarray,
        codes: np.ndarray,
        quadruples: np.ndarray,
    ) -> None:
        self.torch, self.device, self.batch_size = head.torch, head.device, peer.schedule.batch_size
        self.X, self.centers = self.positions(quadruples), self.tensor(centers)
        self.codes, self.error_weight = self.positions(codes), peer.error_weight
        self.classifier = head.networks["classifier"].requires_grad_(False)
        d, n = centers.shape[1], peer.n_hidden
        with seed_networks(self.torch, seed):
            f = zero_layers(self.torch, (3 * d, n, n, d), _GENERATOR)
        self.networks = {"f": f.to(self.device)}
        self.rate, self.n_steps, self.n_taken = peer.schedule.learning_rate, peer.n_steps, 0
        self.optimizers = {"f": self.adam("f", learning_rate=self.rate)}

    def step(self, rows: np.ndarray, rng: np.random.Generator) -> Any:  # noqa: ARG002
        if self.n_steps is not None:
            n_drops = min(_MOST_DROPS, (_MOST_DROPS + 1) * self.n_taken // self.n_steps)
            self.optimizers["f"].param_groups[0]["lr"] = self.rate * _DROP**n_drops
            self.n_taken += 1
        of = self.X[self.positions(rows)]
        a, b, c, d = (self.centers[of[:, n]] for n in range(4))
        found = a + d - c + self.networks["f"](self.torch.cat([a, c, d], dim=1))
        error = (b - found).square().sum(dim=1).mean()
        scores = self.classifier(found)
        loss = self.torch.nn.functional.cross_entropy(scores, self.codes[of[:, 0]])
        return self.descend("f", self.error_weight * error + loss)


def generate(f: Arrays, a: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Return G(a, c, d), row by row."""
    return a + d - c + apply_layers(f, _GENERATOR, np.concatenate([a, c, d], axis=1))


def cluster_centers(
    Z: np.ndarray, counts: np.ndarray, n_clusters: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the centers of all classes (rows), class by class, and their classes."""
    found: list[np.ndarray] = []
    options: Any = {"n_init": 1, "random_state": seed}
    for rows in np.split(Z, np.cumsum(counts)[:-1]):
        if len(rows) > n_clusters:
            means = KMeans(n_clusters, **options).fit(rows)
            rows = means.cluster_centers_.astype(Z.dtype)
        found.append(rows)
    return np.concatenate(found), np.repeat(np.arange(len(counts)), [len(rows) for rows in found])


def analogies(centers: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return quadruples a, b, c, d (rows) of positions of centers; a, b, as c, d, share a class.

    Every ordered pair a, b appears once, unless no other class has a displacement d - c with a
    positive cosine with b - a.
    """
    first, second = pairs_within(codes)
    V, of = unit_rows(centers[second] - centers[first]), codes[first]
    found = []
    size = rows_per_block(4 * V.itemsize * len(V))
    for start in range(0, len(V), size):
        some = slice(start, start + size)
        cosines = V[some] @ V.T
        cosines[of[some, None] == of] = 0
        best = np.abs(cosines).argmax(axis=1)  # the reverse of a pair has minus its cosine
        rows = np.arange(len(best))
        value = cosines[rows, best]
        c = np.where(value > 0, first[best], second[best])
        d = np.where(value > 0, second[best], first[best])
        quadruples = np.column_stack([first[some], second[some], c, d])
        found.append(quadruples[value != 0])
    if not found:
        return np.empty((0, 4), int)
    forward = np.concatenate(found)
    return np.concatenate([forward, forward[:, [1, 0, 3, 2]]])


def pairs_within(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of all pairs of centers of the same class, the smaller first."""
    counts = np.bincount(codes)
    starts = np.cumsum(counts) - counts
    pairs = [np.triu_indices(n, 1) for n in counts]
    first, second = (
        np.concatenate([pair[side] + start for pair, start in zip(pairs, starts, strict=True)])
        for side in (0, 1)
    )
    return first, second


def draw_pairs(
    codes: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw n times a class with two centers at least, then two of its centers."""
    counts = np.bincount(codes)
    starts = np.cumsum(counts) - counts
    drawn = rng.choice(np.flatnonzero(counts > 1), n)
    first, second = rng.random((2, n))
    c = (first * counts[drawn]).astype(int)
    step = 1 + (second * (counts[drawn] - 1)).astype(int)
    return starts[drawn] + c, starts[drawn] + (c + step) % counts[drawn]


def logistic_regression(
    X: np.ndarray, codes: np.ndarray, weight_decay: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return W (m x d) and b of the smallest mean of -log softmax + weight_decay / 2 ||W||^2."""
    basis = None
    if len(X) < X.shape[1]:  # the solution is in the span of the samples
        basis, _ = np.linalg.qr(X.T)  # d x n
        X = X @ basis
    options = {"ridge": len(X) * weight_decay, "curvature": _CURVATURE, "tol": 1e-4}
    W, b = linear_classifiers(X, softmax_loss(codes), int(codes.max()) + 1, **options)
    return (W if basis is None else basis @ W).T, b
