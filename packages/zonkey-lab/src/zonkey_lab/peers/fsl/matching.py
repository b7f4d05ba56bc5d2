"""Matching networks: attention over the support set, with full context (Vinyals et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.arrays import softmax
from zonkey.parameters import Count, Flag

from ..base import attribute, load_torch, parameter, unit_rows
from ..networks import Arrays, part_of, seed_networks, to_array
from ..training import Training
from .base import BaseSamples, Support
from .meta import EpisodeLearner, MetaPeer
from .meta_lstm import logistic
from .prototypical import identity_layer, matrix_of

_SCALE = 10.0  # of cosines at the beginning


class MatchingNetwork(MetaPeer):
    """The labels of the support samples vote, weighted by their cosines with a sample.

    With shots x_i of class y_i, sample x belongs to class j with probability

        p(j | x) = sum_{i: y_i = j} a_i,     a_i ~ exp(t cos(f(x), g(x_i))),

    and training minimizes the mean of -log p(y | x) over the queries of random episodes of base
    classes. `decision_function` returns log p(j | x). The sum favors classes with more shots than
    others. Without full context, f(x) = g(x) = W x. With full context, g also depends on the other
    shots, and f on all of them:

        g(x_i) = W x_i + forward and backward output i of an LSTM that reads W x_1, W x_2, ...
        f(x)   = h_K,     h_k = W x + LSTM([W x, r_k], h_{k-1}),     h_0 = W x,
        r_k    = sum_i b_i g(x_i),     b_i ~ exp(h_{k-1}' g(x_i)).

    Differences from the publication:

    - A linear map of fixed features takes the place of a convolutional network, for shots and
      samples alike. Features are centered by the mean of the base samples and have unit length.
    - The weights begin at W = I and LSTMs that return 0. So an untrained model (`max_iter` = 0, or
      `n_iter_` = 0) lets shots vote by a softmax of 10 times the cosines of centered features. With
      one shot it predicts as `SimpleShot`.
    - Cosines are multiplied by a learned t, which begins at 10. With t = 1, as printed, weights of
      the nearest and the farthest shot differ by a factor of 7.4 at most.
    - Shots are read class by class; the publication does not say in which order.

    Parameters
    ----------
    full_context : bool, default=True
        Whether embeddings depend on the whole support set. The publication reports both.
    n_steps : int, default=5
        Number of steps K of the LSTM that reads the support set for a sample, with full context.
        The publication prints no number; 5 is the size of its smallest support set.
    n_way : int or None, default=None
        Number of classes in an episode of base classes, or all of them if there are fewer. None:
        the number of classes of the support set, as in the publication, but at most 60.
    n_query : int, default=15
        Largest number of queries per class in an episode. 15 as in later comparisons.
    training : Training, default=None
        The publication prints no learning rate.

    Attributes
    ----------
    weights_ : dict of ndarray
        W (n_features x n_features) and t; with full context also Wx, Wh and b of the LSTMs
        "forward", "backward" and "read", with gates in the order input, forget, cell, output.
    support_ : ndarray of shape (n_samples, n_features)
        Embeddings g(x_i) of the support samples, class by class.

    See Also
    --------
    PrototypicalNetwork : Compares with class means, by distances.
    zonkey.NearestSupport : Nearest samples or means of raw features.

    References
    ----------
    O. Vinyals, C. Blundell, T. Lillicrap, K. Kavukcuoglu, D. Wierstra. Matching networks for one
    shot learning. NeurIPS 2016.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.fsl import BaseSamples, MatchingNetwork
    >>> from zonkey.testing import shots_problem
    >>> problem = shots_problem()
    >>> base = BaseSamples(problem.X_base, problem.y_base)
    >>> model = MatchingNetwork(base, n_steps=2, n_episodes=8, training=Training(max_iter=2))
    >>> model = model.fit(problem.X_support, problem.y_support)
    >>> model.score(problem.X_query, problem.y_query)
    1.0
    """

    full_context: bool = parameter(
        default=True, within=Flag("Pass False for embeddings of one sample at a time.")
    )
    n_steps: int = parameter(default=5, within=Count())

    support_: np.ndarray = attribute()
    _starts: np.ndarray = attribute()
    _n_reads: int = attribute()

    _own = Training(max_iter=20, n_iter_no_change=5, batch_size=4, learning_rate=1e-4)

    def _learner(self, base: BaseSamples) -> EpisodeLearner:
        return MatchingLearner(*load_torch(self), base, self)

    def _adapt(self, support: Support) -> dict[str, Any]:
        S, counts = self._embed(support.X), support.counts
        if self.full_context:
            ahead = _read(part_of(self.weights_, "forward"), S)
            back = _read(part_of(self.weights_, "backward"), S[::-1])[::-1]
            S = S + ahead + back
        return {
            "support_": S,
            "_starts": np.cumsum(counts) - counts,
            "_n_reads": int(self.n_steps) if self.full_context else 0,
        }

    def _embed(self, X: np.ndarray) -> np.ndarray:
        return self._inputs(X) @ self.weights_["W"].astype(X.dtype, copy=False)

    def _scores(self, X: np.ndarray) -> np.ndarray:
        Z, S = self._embed(X), self.support_.astype(X.dtype, copy=False)
        if self._n_reads:
            Z = _add_context(part_of(self.weights_, "read"), Z, S, self._n_reads)
        scaled = unit_rows(Z) @ unit_rows(S).T * self.weights_["t"].astype(X.dtype)
        of_classes = np.logaddexp.reduceat(scaled, self._starts, axis=1)
        return of_classes - np.logaddexp.reduce(of_classes, axis=1, keepdims=True)


def _add_context(arrays: Arrays, Z: np.ndarray, S: np.ndarray, n_steps: int) -> np.ndarray:
    """Return the embeddings of samples after so many reads of the support embeddings S."""
    Wx, Wh, b = (arrays[name].astype(Z.dtype, copy=False) for name in ("Wx", "Wh", "b"))
    d = Z.shape[1]
    of_sample, of_support = Z @ Wx[:d] + b, S @ Wx[d:]
    h, c = Z, np.zeros_like(Z)
    for _ in range(n_steps):
        attention = np.asarray(softmax(h @ S.T))
        # The mean of mapped rows is the mapped mean, and there are fewer rows to map.
        h, c = _apply_gates(of_sample + attention @ of_support + h @ Wh, c)
        h = h + Z
    return h


def _read(arrays: Arrays, Z: np.ndarray) -> np.ndarray:
    """Return the outputs of an LSTM that reads the rows in this order."""
    Wx, Wh, b = (arrays[name].astype(Z.dtype, copy=False) for name in ("Wx", "Wh", "b"))
    of_rows, out = Z @ Wx + b, np.empty_like(Z)
    h = c = np.zeros_like(Z[:1])
    for i in range(len(Z)):
        h, c = _apply_gates(of_rows[i : i + 1] + h @ Wh, c)
        out[i] = h[0]
    return out


def _apply_gates(gates: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return output and cell state of an LSTM."""
    enter, forget, new, leave = np.split(gates, 4, axis=1)
    c = logistic(forget) * c + logistic(enter) * np.tanh(new)
    return logistic(leave) * np.tanh(c), c


class MatchingLearner(EpisodeLearner):
    """Trains embeddings whose cosines weigh the votes of shots."""

    def __init__(self, torch: Any, device: str, base: BaseSamples, peer: Any) -> None:
        super().__init__(torch, device, base, peer)
        d = self.n_inputs
        scale = torch.nn.Parameter(torch.tensor([_SCALE], device=device))
        self.networks = {
            "embedding": identity_layer(torch, d, 1.0, device),
            "scale": torch.nn.ParameterDict({"t": scale}),
        }
        self.n_steps = peer.n_steps if peer.full_context else 0
        if peer.full_context:
            with seed_networks(torch, base.seed):
                context = torch.nn.LSTM(d, d, batch_first=True, bidirectional=True)
                read = torch.nn.LSTMCell(2 * d, d)
            for network in (context, read):
                _begin_at_zero(torch, network, d)
            self.networks |= {"context": context.to(device), "read": read.to(device)}
        self.optimizers = {"all": self.optimize_all()}

    def logits(self, support: Any, query: Any) -> Any:
        """Return the logarithms of the shares of votes."""
        unit = self.torch.nn.functional.normalize
        n_way, n_shot, d = support.shape[1:]
        S = self.networks["embedding"](support.flatten(1, 2))  # e x n_way n_shot x d
        Z = self.networks["embedding"](query.flatten(1, 2))  # e x n_way n_query x d
        if self.n_steps:
            out, _ = self.networks["context"](S)
            S = S + out[..., :d] + out[..., d:]
            Z = self._add_context(Z, S)
        scaled = self.networks["scale"]["t"] * unit(Z, dim=2) @ unit(S, dim=2).mT
        votes = scaled.log_softmax(dim=2).unflatten(2, (n_way, n_shot))
        return votes.logsumexp(dim=3)

    def _add_context(self, Z: Any, S: Any) -> Any:
        torch, cell, d = self.torch, self.networks["read"], Z.shape[2]
        of_sample = Z @ cell.weight_ih[:, :d].T + cell.bias_ih + cell.bias_hh
        of_support = S @ cell.weight_ih[:, d:].T
        h, c = Z, torch.zeros_like(Z)
        for _ in range(self.n_steps):
            attention = (h @ S.mT).softmax(dim=2)
            gates = of_sample + attention @ of_support + h @ cell.weight_hh.T
            enter, forget, new, leave = gates.chunk(4, dim=2)
            c = forget.sigmoid() * c + enter.sigmoid() * new.tanh()
            h = leave.sigmoid() * c.tanh() + Z
        return h

    def export(self) -> dict[str, np.ndarray]:
        """Return the map, the factor of cosines, and LSTMs."""
        arrays = {
            "W": matrix_of(self.networks["embedding"]),
            "t": to_array(self.networks["scale"]["t"]),
        }
        if self.n_steps:
            context, read = self.networks["context"], self.networks["read"]
            arrays |= _lstm_arrays("forward", context, "_l0")
            arrays |= _lstm_arrays("backward", context, "_l0_reverse")
            arrays |= _lstm_arrays("read", read, "")
        return arrays


def _begin_at_zero(torch: Any, lstm: Any, d: int) -> None:
    """Let an LSTM return zeros, by zero weights of the cell input; other gates stay random."""
    with torch.no_grad():
        for weights in lstm.parameters():
            weights[2 * d : 3 * d] = 0


def _lstm_arrays(name: str, lstm: Any, suffix: str) -> Arrays:
    found = {kind: to_array(getattr(lstm, kind + suffix)) for kind in _LSTM}
    return {
        f"{name}/Wx": np.ascontiguousarray(found["weight_ih"].T),
        f"{name}/Wh": np.ascontiguousarray(found["weight_hh"].T),
        f"{name}/b": found["bias_ih"] + found["bias_hh"],
    }


_LSTM = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
