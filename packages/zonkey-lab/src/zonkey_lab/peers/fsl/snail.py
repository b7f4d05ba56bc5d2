"""SNAIL: temporal convolutions and attention over the support set as a sequence (Mishra et al.)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zonkey.arrays import namespace
from zonkey.parameters import Count

from ..base import attribute, convert_dtype, load_torch, parameter
from ..networks import seed_networks
from ..training import Training
from .base import BaseSamples, Support, center_rows
from .meta import EpisodeLearner, MetaPeer, arrays_from
from .meta_lstm import logistic

_SHARPNESS = 5.0  # factor of cosines in the first attention, before training
_CONFIDENCE = 10.0  # factor of the labels that it reads, before training


class SNAIL(MetaPeer):
    """Simple neural attentive learner: a network that reads the support set as a sequence.

    The sequence has a pair (feature, one-hot label) per support sample and ends with the query,
    whose label is zeros. Features are mapped to `n_hidden` numbers. Blocks follow, each of which
    appends channels to those before: an attention, convolutions, an attention, convolutions, an
    attention. A linear layer maps the last position to scores of classes. At position t,

        attention:    sum_s a_s V x_s,     a = softmax of (Q x_t)' (K x_s) / sqrt(k), s <= t,
        convolution:  tanh(F [x_t, x_(t-r)]) * logistic(G [x_t, x_(t-r)]),     r = 1, 2, 4, ...

    where r doubles until a position sees all others, and the sequence is padded with zeros at its
    start. Training minimizes the mean cross-entropy of the queries of random episodes of base
    classes. `decision_function` returns the scores.

    Attention adds up over samples: it favors classes with more shots than others.

    Support samples do not see the query. So `fit` computes their channels once, and a prediction
    only those of the last position.

    Differences from the publication:

    - Features come from a fixed backbone instead of a network that is trained along. They are
      centered by the mean of the base samples and have unit length.
    - Values of all attention blocks have `n_hidden` channels (or `n_way`, if there are more
      classes), keys one more. The publication has 32 to 512, and 128 filters.
    - The first map begins at the principal axes of the base samples. The first attention begins at
      a softmax of scaled cosines that reads labels, and only it is read by the last layer. So an
      untrained model (`max_iter` = 0, or `n_iter_` = 0) is a soft nearest-neighbor rule: each shot
      votes for its label with a weight that grows with the cosine. From random weights, training
      would have to find it with few base classes.
    - r begins at 1. The publication prints 2, with which half of the positions are out of reach.
    - The sequence of a support set is sorted by class and value, because predictions must not
      depend on the order of samples. Episodes are in random order, as in the publication.

    Parameters
    ----------
    n_hidden : int, default=64
        Number of channels of the mapped features, at most `n_features`, and of values. 64 as in
        the publication for the features.
    n_filters : int, default=16
        Number of channels of each convolution.
    n_way : int or None, default=None
        Number of classes in an episode of base classes, or all of them if there are fewer. Support
        sets may have fewer classes, but not more. None: the number of classes of the support set.
    n_query : int, default=15
        Largest number of queries per class in an episode. The publication has 1.

    Attributes
    ----------
    weights_ : dict of ndarray
        The network: `embedding` (n_features x n_hidden), `attention0` to `attention2` (columns of
        query, key and value), `convolution0_0` etc. (rows of x_t and x_(t-r); columns of F and G),
        and `output`. The last row of a matrix is its bias, but for `embedding`, which has none.
    memory_ : ndarray of shape (n_samples, n_channels)
        Channels of the support samples after all blocks.

    See Also
    --------
    MatchingNetwork : Attention over the support set, too, without regard to order.

    References
    ----------
    N. Mishra, M. Rohaninejad, X. Chen, P. Abbeel. A simple neural attentive meta-learner. ICLR
    2018.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.fsl import SNAIL, BaseSamples
    >>> from zonkey.testing import shots_problem
    >>> problem = shots_problem()
    >>> base = BaseSamples(problem.X_base, problem.y_base)
    >>> model = SNAIL(base, n_hidden=8, n_filters=4, n_episodes=8, training=Training(max_iter=2))
    >>> model = model.fit(problem.X_support, problem.y_support)
    >>> model.score(problem.X_query, problem.y_query)
    1.0
    """

    n_hidden: int = parameter(default=64, within=Count())
    n_filters: int = parameter(default=16, within=Count())

    memory_: np.ndarray = attribute()

    _own = Training(max_iter=50, n_iter_no_change=5, batch_size=4, learning_rate=1e-4)
    _has_outputs = True

    def _learner(self, base: BaseSamples) -> EpisodeLearner:
        return _SNAILLearner(self, base)

    def _adapt(self, support: Support) -> dict[str, Any]:
        n_way = self.weights_["output"].shape[1]
        labels = np.eye(n_way, dtype=support.X.dtype)[support.codes]
        weights = convert_dtype(self.weights_, support.X.dtype)
        return {"memory_": channels_of_support(weights, self._inputs(support.X), labels)}

    def _scores(self, X: np.ndarray) -> np.ndarray:
        weights, memory = (convert_dtype(part, X.dtype) for part in (self.weights_, self.memory_))
        found = scores_of_queries(weights, self._inputs(X), memory)
        return np.ascontiguousarray(found[:, : self.classes_.shape[0]])


class _SNAILLearner(EpisodeLearner):
    def __init__(self, peer: SNAIL, base: BaseSamples) -> None:
        super().__init__(*load_torch(peer), base, peer)
        self.n_way = peer.episode_sizes.n_way  # base classes may be fewer
        n_rates = (
            self.n_way * peer.episode_sizes.n_shot
        ).bit_length()  # 2 ** n_rates > support samples
        axes = _principal_axes(base, int(peer.n_hidden))
        with seed_networks(self.torch, base.seed):
            begin = _initial_weights(self.torch, axes, self.n_way, int(peer.n_filters), n_rates)
        self.networks = {"all": self.torch.nn.ParameterDict(begin).to(self.device)}
        self.optimizers = {"all": self.optimize_all()}

    def loss(self, support: Any, query: Any, rng: np.random.Generator) -> Any:
        """Return the cross-entropy with new labels of the classes, and samples in random order."""
        n_episodes, n_way, n_shot = support.shape[:3]
        n = n_way * n_shot
        labels = self.draw_outputs(support, rng)
        order = self.positions(np.argsort(rng.random((n_episodes, n)), axis=1))
        episodes = self.positions(np.arange(n_episodes))[:, None]
        X = support.flatten(1, 2)[episodes, order]
        found = self.found(X, labels.repeat_interleave(n_shot, dim=1)[episodes, order], query)
        return self.cross_entropy(found, labels.repeat_interleave(query.shape[2], dim=1))

    def logits(self, support: Any, query: Any) -> Any:
        codes = self.targets(support).expand(len(support), -1)
        return self.found(support.flatten(1, 2), codes, query)[..., : support.shape[1]]

    def found(self, X: Any, codes: Any, query: Any) -> Any:
        """Return the scores of queries after sequences of samples (e x n x d) and codes (e x n)."""
        labels = self.torch.nn.functional.one_hot(codes, self.n_way).to(X.dtype)
        weights = dict(self.networks["all"].items())
        memory = channels_of_support(weights, X, labels)
        return scores_of_queries(weights, query.flatten(1, 2), memory)

    def export(self) -> dict[str, np.ndarray]:
        return arrays_from(dict(self.networks["all"].items()))


def _principal_axes(base: BaseSamples, n: int) -> np.ndarray:
    """Return the first principal axes of the inputs (d x n, or d x d if d < n)."""
    X = center_rows(base.X.astype(np.float64), base.mean)
    return np.linalg.eigh(X.T @ X)[1][:, : -n - 1 : -1].copy()  # largest last; torch needs a copy


def _initial_weights(
    torch: Any, axes: np.ndarray, n_way: int, n_filters: int, n_rates: int
) -> dict[str, Any]:
    """Return weights of a nearest-neighbor rule, among channels that it does not use yet."""
    h = axes.shape[1]
    found = {"embedding": torch.as_tensor(axes, dtype=torch.float32)}
    n_channels, n_values = h + n_way, max(h, n_way)

    def add_channels(name: str, n_inputs: int, width: int, n_new: int) -> None:
        nonlocal n_channels
        bound = n_inputs**-0.5  # as torch's own layers
        found[name] = bound * (2 * torch.rand(n_inputs + 1, width) - 1)
        n_channels += n_new

    for i in range(3):
        add_channels(f"attention{i}", n_channels, 2 * (h + 1) + n_values, n_values)
        for j in range(n_rates if i < 2 else 0):
            add_channels(f"convolution{i}_{j}", 2 * n_channels, 2 * n_filters, n_filters)
    _attend_to_similar_samples(torch, found["attention0"], h, n_way)
    found["output"] = torch.zeros(n_channels + 1, n_way)
    # The labels that the first attention reads come right after the first channels.
    found["output"][h + n_way : h + 2 * n_way] = _CONFIDENCE * torch.eye(n_way)
    return found


def _attend_to_similar_samples(torch: Any, matrix: Any, h: int, n_way: int) -> None:
    """Let an attention weigh labels by cosines, and look at samples with a label only."""
    root = (_SHARPNESS * (h + 1) ** 0.5) ** 0.5  # of the factor of a cosine
    labels, queries, keys = slice(h, h + n_way), slice(0, h), slice(h + 1, 2 * h + 1)
    values = slice(2 * h + 2, 2 * h + 2 + n_way)
    matrix[:, : 2 * h + 2] = 0
    matrix[:h, queries] = matrix[:h, keys] = root * torch.eye(h)
    # The last channel of keys says whether there is a label; a query is most similar to itself.
    matrix[-1, h] = matrix[labels, 2 * h + 1] = 2**0.5 * root
    matrix[:, values] = 0
    matrix[labels, values] = torch.eye(n_way)


# The rest is written for NumPy and torch, and for one sequence or a batch of them, whose arrays
# have one axis more.


def channels_of_support(weights: Mapping[str, Any], X: Any, labels: Any) -> Any:
    """Return all channels of the support samples, of which each sees those before."""
    xp = namespace(X)
    own = xp.concat([X @ weights["embedding"], labels], axis=-1)
    for name in block_names(weights):
        own = xp.concat([own, block(weights, name, own, own)], axis=-1)
    return own


def scores_of_queries(weights: Mapping[str, Any], X: Any, memory: Any) -> Any:
    """Return the scores of samples, each at the end of a sequence of its own."""
    xp = namespace(X)
    embedding = X @ weights["embedding"]
    no_label = [xp.zeros_like(embedding[..., :1])] * weights["output"].shape[1]
    own = xp.concat([embedding, *no_label], axis=-1)
    for name in block_names(weights):
        past = memory[..., : own.shape[-1]]
        own = xp.concat([own, block(weights, name, own, past)], axis=-1)
    return affine(own, weights["output"])


def block_names(weights: Mapping[str, Any]) -> list[str]:
    """Return the names of the blocks, from the first to the last."""
    n_rates = sum(name.startswith("convolution0") for name in weights)
    both = [[f"attention{i}", *(f"convolution{i}_{j}" for j in range(n_rates))] for i in range(2)]
    return [*both[0], *both[1], "attention2"]


def block(weights: Mapping[str, Any], name: str, own: Any, past: Any) -> Any:
    """Return new channels of positions; `past` is `own` itself, or all that came before."""
    if name.startswith("attention"):
        return attention(weights[name], own, past, weights["embedding"].shape[1] + 1)
    return convolution(weights[name], own, past, 2 ** int(name.partition("_")[2]))


def attention(matrix: Any, own: Any, past: Any, k: int) -> Any:
    """Return the values of positions before, and of the position itself, by their weights."""
    xp = namespace(own)
    read = affine(own, matrix)  # columns: query and key (k each), value
    seen = read if past is own else affine(past, matrix)
    query = read[..., :k]
    logits = query @ xp.matrix_transpose(seen[..., k : 2 * k])
    if past is own:  # later ones are hidden; the position itself follows
        logits = logits + xp.triu(xp.full_like(logits, -xp.inf))
    itself = xp.sum(query * read[..., k : 2 * k], axis=-1, keepdims=True)
    logits = xp.concat([logits, itself], axis=-1) / k**0.5
    shares = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    shares = shares / xp.sum(shares, axis=-1, keepdims=True)
    return shares[..., :-1] @ seen[..., 2 * k :] + shares[..., -1:] * read[..., 2 * k :]


def convolution(matrix: Any, own: Any, past: Any, rate: int) -> Any:
    """Return a gated sum over each position and the one `rate` before, zeros if there is none."""
    xp = namespace(own)
    n, c = past.shape[-2:]
    padded = xp.concat([*[xp.zeros_like(past[..., :1, :])] * rate, past], axis=-2)
    before = padded[..., :n, :] if past is own else padded[..., n : n + 1, :]
    sums = own @ matrix[:c] + before @ matrix[c : 2 * c] + matrix[-1]
    half = sums.shape[-1] // 2
    return xp.tanh(sums[..., :half]) * logistic(sums[..., half:])


def affine(X: Any, matrix: Any) -> Any:
    """Return X times the matrix, whose last row is added."""
    return X @ matrix[:-1] + matrix[-1]
