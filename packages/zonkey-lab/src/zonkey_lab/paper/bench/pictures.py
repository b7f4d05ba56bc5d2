"""Networks in training on pictures: four blocks of convolutions before the meta-learners.

A sample is a picture: a row of 3 x side x side numbers from 0 to 1. Episodes, losses and early
stopping are those of the learners on features (`peers.fsl`).
"""

from __future__ import annotations

from math import isqrt
from typing import Any, ClassVar

import numpy as np

from ...peers.fsl import BaseSamples
from ...peers.fsl.maml import initial_head, take_step
from ...peers.fsl.matching import MatchingLearner
from ...peers.fsl.meta import EpisodeLearner
from ...peers.fsl.prototypical import PrototypicalLearner
from ...peers.fsl.relation import RelationLearner
from ...peers.networks import seed_networks, to_array
from ...peers.training import batches

N_BLOCKS = 4
_SHIFT = 5  # pixels that pictures are moved by at most, in training
_EPSILON = 1e-5  # of batch normalization
_AFTER = ("scale", "shift")  # of normalized channels
_JUDGED_AT_ONCE = 16  # episodes
_N_COMPARING = 8  # units before the score of the comparison, as published


class PictureLearner(EpisodeLearner):
    """Episodes of pictures, and scores of pictures after training."""

    def __init__(self, torch: Any, device: str, base: BaseSamples, peer: Any) -> None:
        self.n_channels, self.side = int(peer.n_channels), find_side(base.n_features)
        super().__init__(torch, device, base, peer)

    def samples(self, base: BaseSamples) -> Any:
        """Return pictures as they are; `encode` makes of them what `logits` takes."""
        return self.tensor(base.X)

    def open_pictures(self, rows: Any, rng: np.random.Generator | None) -> Any:
        """Return pictures of numbers from -1 to 1; with `rng`, moved and perhaps mirrored."""
        X = 2 * rows.unflatten(1, (3, self.side, self.side)) - 1
        if rng is None:
            return X
        top, left = rng.integers(2 * _SHIFT + 1, size=2).tolist()
        X = self.torch.nn.functional.pad(X, (_SHIFT,) * 4, mode="replicate")
        X = X[:, :, top : top + self.side, left : left + self.side]
        return X.flip(3) if rng.random() < 0.5 else X

    @property
    def judged_at_once(self) -> int:
        """Number of episodes that are scored together: more would take much memory."""
        return _JUDGED_AT_ONCE

    def score(self, shots: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return the scores of pictures for the classes of shots (m x n_shot x d)."""
        with self.torch.no_grad():
            support, query = self.tensor(shots)[None], self.tensor(X)[None, :, None]
            return to_array(self.logits(*self.encode(support, query))[0])

    def export(self) -> dict[str, np.ndarray]:
        """Return the weights of all networks."""
        return self.state()["weights"]


class EncodedLearner(PictureLearner):
    """The four blocks, trained along with the networks of the learner behind them."""

    n_pools: ClassVar[int] = N_BLOCKS  # of the first blocks

    def __init__(self, torch: Any, device: str, base: BaseSamples, peer: Any) -> None:
        super().__init__(torch, device, base, peer)
        with seed_networks(torch, base.seed):
            blocks = self.make_blocks(3, [i < self.n_pools for i in range(N_BLOCKS)])
        self.networks["encoder"] = torch.nn.Sequential(*blocks, torch.nn.Flatten()).to(device)
        self.optimizers = {"all": self.optimize_all()}

    def count_inputs(self, base: BaseSamples) -> int:  # noqa: ARG002
        """Return the number of features of a picture."""
        return self.n_channels * (self.side // 2**self.n_pools) ** 2

    def make_blocks(self, n_inputs: int, pools: list[bool]) -> list[Any]:
        """Return blocks, each with or without pooling."""
        nn, n = self.torch.nn, self.n_channels
        found = []
        for i, is_pooled in enumerate(pools):
            found += [nn.Conv2d(n if i else n_inputs, n, 3, padding=1), nn.BatchNorm2d(n)]
            found += [nn.ReLU(), *([nn.MaxPool2d(2)] if is_pooled else [])]
        return found

    def encode(
        self, support: Any, query: Any, rng: np.random.Generator | None = None
    ) -> tuple[Any, Any]:
        """Return features; batches of a training step are normalized by their own statistics."""
        self.set_mode(rng is not None)
        rows = self.torch.cat([support.flatten(0, 2), query.flatten(0, 2)])
        Z = self.networks["encoder"](self.open_pictures(rows, rng))
        sizes = support.shape[:3], query.shape[:3]
        S, Q = Z.split([size.numel() for size in sizes])
        return S.unflatten(0, sizes[0]), Q.unflatten(0, sizes[1])

    def set_mode(self, is_training: bool) -> None:
        """Let batch normalization take statistics of batches, or those of the training."""
        for network in self.networks.values():
            network.train(is_training)


class EncodedPrototypical(EncodedLearner, PrototypicalLearner):
    """Nearest means of the features themselves, as published, without a map behind them."""

    def __init__(self, torch: Any, device: str, base: BaseSamples, peer: Any) -> None:
        super().__init__(torch, device, base, peer)
        self.networks["embedding"] = torch.nn.Identity()
        self.optimizers = {"all": self.optimize_all()}


class EncodedMatching(EncodedLearner, MatchingLearner):
    """Cosines of the features themselves, as published, without a map behind them."""

    def __init__(self, torch: Any, device: str, base: BaseSamples, peer: Any) -> None:
        super().__init__(torch, device, base, peer)
        self.networks["embedding"] = torch.nn.Identity()
        self.optimizers = {"all": self.optimize_all()}


class EncodedRelation(EncodedLearner, RelationLearner):
    """A comparison of feature maps by convolutions."""

    n_pools = 2

    def make_comparison(self, peer: Any) -> Any:  # noqa: ARG002
        """Return two blocks over the maps of both, and two layers."""
        nn, side = self.torch.nn, self.side // 2 ** (self.n_pools + 2)
        blocks = self.make_blocks(2 * self.n_channels, [True, True])
        last = (
            nn.Linear(self.n_channels * side**2, _N_COMPARING),
            nn.ReLU(),
            nn.Linear(_N_COMPARING, 1),
        )
        return nn.Sequential(*blocks, nn.Flatten(), *last)

    def logits(self, support: Any, query: Any) -> Any:
        """Return the scores before the sigmoid."""
        side = self.side // 2**self.n_pools
        maps = (self.n_channels, side, side)
        of_classes = support.mean(dim=2).unflatten(2, maps)[:, None]
        of_samples = query.flatten(1, 2).unflatten(2, maps)[:, :, None]
        sizes = len(support), of_samples.shape[1], support.shape[1]
        both = (each.expand(*sizes, *maps) for each in (of_classes, of_samples))
        pairs = self.torch.cat([*both], dim=3)  # e x n x n_way x 2 n_channels x side x side
        return self.networks["relation"](pairs.flatten(0, 2)).view(sizes)


class EncodedClassifier(EncodedPrototypical):
    """A linear layer over base classes behind the features."""

    def __init__(self, torch: Any, device: str, base: BaseSamples, peer: Any) -> None:
        super().__init__(torch, device, base, peer)
        with seed_networks(torch, base.seed):
            last = torch.nn.Linear(self.n_inputs, len(base.classes))
        self.networks["classifier"], self.codes = last.to(device), self.positions(base.codes)
        self.optimizers = {"all": self.optimize_all()}

    def epoch(self, rng: np.random.Generator) -> float:
        """Classify all base samples; return the mean loss."""
        total: Any = 0.0
        self.set_mode(True)
        for some in batches(len(self.X), self.peer.schedule.batch_size, rng):
            rows = self.positions(some)
            Z = self.networks["encoder"](self.open_pictures(self.X[rows], rng))
            found = self.networks["classifier"](Z)
            loss = self.torch.nn.functional.cross_entropy(found, self.codes[rows])
            total = total + len(rows) * self.descend("all", loss)
        return float(total) / len(self.X)


class AdaptedLearner(PictureLearner):
    """MAML: all weights take the inner steps, those of each episode its own."""

    def __init__(self, torch: Any, device: str, base: BaseSamples, peer: Any) -> None:
        super().__init__(torch, device, base, peer)
        self.maml, c, n_way = peer, self.n_channels, peer.episode_sizes.n_way
        begin = {}
        with seed_networks(torch, base.seed):
            for i in range(N_BLOCKS):
                begin[f"kernel{i}"] = torch.nn.Conv2d(
                    c if i else 3, c, 3, bias=False
                ).weight.detach()
                begin |= {f"scale{i}": torch.ones(c), f"shift{i}": torch.zeros(c)}
            last = torch.nn.Linear(c * (self.side // 2**N_BLOCKS) ** 2, n_way)
        begin |= {"W": last.weight.detach().T.contiguous(), "b": last.bias.detach()}
        self.networks = {"all": torch.nn.ParameterDict(begin).to(device)}
        self.optimizers = {"all": self.optimize_all()}

    def encode(
        self, support: Any, query: Any, rng: np.random.Generator | None = None
    ) -> tuple[Any, Any]:
        """Return pictures (e x n_way x n x 3 x side x side)."""
        sizes = support.shape[:3], query.shape[:3]
        rows = self.torch.cat([support.flatten(0, 2), query.flatten(0, 2)])
        S, Q = self.open_pictures(rows, rng).split([size.numel() for size in sizes])
        return S.unflatten(0, sizes[0]), Q.unflatten(0, sizes[1])

    def loss(self, support: Any, query: Any, rng: np.random.Generator) -> Any:
        """Return the cross-entropy after the steps, with random outputs for the classes."""
        found = self.adapt(support, query, self.draw_outputs(support, rng))
        return self.cross_entropy(found, self.targets(query))

    def logits(self, support: Any, query: Any) -> Any:
        """Return the scores after the steps, with the first outputs for the classes."""
        with self.torch.enable_grad():
            return self.adapt(support, query, self.first_outputs(support), learns=False).detach()

    def adapt(self, support: Any, query: Any, outputs: Any, learns: bool = True) -> Any:
        """Return the scores of queries after the steps; classes begin at `outputs` (e x n_way)."""
        torch, peer = self.torch, self.maml
        S, Q = support.flatten(1, 2), query.flatten(1, 2)
        head = initial_head(dict(self.networks["all"].items()), outputs)
        own = {name: head[name].expand(len(S), *head[name].shape) for name in self.of_blocks()}
        head |= own
        for _ in range(peer.n_steps):
            found, _ = self.score_episodes(head, S, S[:, :0])
            # Each episode has its own weights: the gradient of the sum is that of each loss.
            loss = len(S) * self.cross_entropy(found, self.targets(support))
            second = {"create_graph": learns and not peer.first_order}
            slopes = torch.autograd.grad(loss, list(head.values()), **second)
            head = take_step(head, dict(zip(head, slopes, strict=True)), peer.inner_learning_rate)
        return self.score_episodes(head, S, Q)[1]

    def of_blocks(self) -> list[str]:
        """Return the names of the weights before the outputs."""
        return [name for name in self.networks["all"] if name not in ("W", "b")]

    def score_episodes(self, head: dict[str, Any], S: Any, Q: Any) -> tuple[Any, Any]:
        """Return the scores of shots and queries (e x n x n_way); episodes are groups of channels.

        Weights have a first axis for episodes. Statistics of the shots normalize both.
        """
        F, (e, n) = self.torch.nn.functional, S.shape[:2]
        X = self.torch.cat([S, Q], dim=1).transpose(0, 1).flatten(1, 2)
        for i in range(N_BLOCKS):
            X = F.conv2d(X, head[f"kernel{i}"].flatten(0, 1), padding=1, groups=e)
            center = X[:n].mean(dim=(0, 2, 3))[:, None, None]
            spread = X[:n].var(dim=(0, 2, 3), correction=0)[:, None, None]
            scale, shift = (head[f"{name}{i}"].flatten()[:, None, None] for name in _AFTER)
            X = F.max_pool2d(((X - center) * (spread + _EPSILON).rsqrt() * scale + shift).relu(), 2)
        Z = X.unflatten(1, (e, -1)).flatten(2).transpose(0, 1)  # e x n x features
        found = Z @ head["W"] + head["b"][:, None]
        return found[:, :n], found[:, n:]


def find_side(n_features: int) -> int:
    """Return the side of pictures with so many numbers."""
    side = isqrt(n_features // 3)
    if 3 * side**2 != n_features or side % 2**N_BLOCKS:
        raise ValueError(
            f"Pictures must have 3 x side x side numbers, with a side that {2**N_BLOCKS} divides; "
            f"got {n_features} features. Use data of pictures, such as emoji-pictures."
        )
    return side
