"""Neural networks of the peers: layers, their state as arrays, and prediction without torch.

torch trains. The learned weights are kept as plain arrays, so that fitted models can be stored,
sent and used where torch is not installed.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from zonkey.optional import require_package

from .training import Learner, batches

Arrays = dict[str, np.ndarray]

_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "linear": lambda Z: Z,
    "relu": lambda Z: np.maximum(Z, 0),
    "leaky_relu": lambda Z: np.where(Z > 0, Z, np.asarray(0.2, Z.dtype) * Z),
    "tanh": np.tanh,
    "sigmoid": lambda Z: 0.5 * (1 + np.tanh(Z / 2)),
}


def torch_for(purpose: str) -> Any:
    """Return the package torch, or say which extra has it."""
    return require_package("torch", purpose)


def layers(torch: Any, sizes: Sequence[int], activations: Sequence[str]) -> Any:
    """Return a network of fully connected layers, each followed by its activation.

    `apply_layers` computes the same from the arrays of `arrays_of`.
    """
    kinds = {
        "linear": torch.nn.Identity,
        "relu": torch.nn.ReLU,
        "leaky_relu": lambda: torch.nn.LeakyReLU(0.2),
        "tanh": torch.nn.Tanh,
        "sigmoid": torch.nn.Sigmoid,
    }
    steps = []
    for i, activation in enumerate(activations):
        steps += [torch.nn.Linear(sizes[i], sizes[i + 1]), kinds[activation]()]
    return torch.nn.Sequential(*steps)


def arrays_of(network: Any) -> Arrays:
    """Return the weights of `layers` as arrays: W0 (in x out), b0, W1, ..."""
    found: Arrays = {}
    linear = [step for step in network if hasattr(step, "weight")]
    for i, step in enumerate(linear):
        found[f"W{i}"] = np.ascontiguousarray(to_array(step.weight).T)
        found[f"b{i}"] = to_array(step.bias)
    return found


def apply_layers(arrays: Arrays, activations: Sequence[str], X: np.ndarray) -> np.ndarray:
    """Return the output of the network, in the dtype of X."""
    for i, activation in enumerate(activations):
        W, b = (arrays[f"{kind}{i}"].astype(X.dtype, copy=False) for kind in "Wb")
        X = _ACTIVATIONS[activation](X @ W + b)
    return X


def to_array(tensor: Any) -> np.ndarray:
    """Return a copy of a tensor on the host."""
    return np.array(tensor.detach().cpu().numpy())


@contextmanager
def seed_networks(torch: Any, seed: int) -> Iterator[None]:
    """Initialize networks by this seed; torch's own state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def fast_products(torch: Any, device: str) -> Iterator[None]:
    """Let a GPU round the factors of products to TF32 while networks are trained.

    Training does not need the last digits, and large networks learn several times faster.
    """
    if not device.startswith("cuda"):
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class NetworkLearner(Learner):
    """Networks and optimizers in training; a subclass sets both dicts and adds `epoch`."""

    torch: Any
    device: str
    networks: dict[str, Any]
    optimizers: dict[str, Any]
    _seeded_by: np.random.Generator | None = None
    _generator: Any = None

    def tensor(self, array: np.ndarray) -> Any:
        """Return a float32 tensor on the device."""
        return self.torch.as_tensor(np.asarray(array, np.float32), device=self.device)

    def positions(self, array: np.ndarray) -> Any:
        """Return an int64 tensor on the device."""
        return self.torch.as_tensor(np.asarray(array, np.int64), device=self.device)

    def noise(self, rng: np.random.Generator, *shape: int) -> Any:
        """Return standard normal numbers that are drawn on the device, from a seed of `rng`."""
        if self._seeded_by is not rng:  # once per epoch
            self._seeded_by, seed = rng, int(rng.integers(2**63))
            self._generator = self.torch.Generator(self.device).manual_seed(seed)
        return self.torch.randn(shape, generator=self._generator, device=self.device)

    def adam(self, *names: str, learning_rate: float, **options: Any) -> Any:
        """Return an optimizer of all weights of the networks of these names."""
        weights = [w for name in names for w in self.networks[name].parameters()]
        return self.torch.optim.Adam(weights, lr=learning_rate, **options)

    def descend(self, name: str, loss: Any) -> Any:
        """Let the optimizer of this name take one step; return the loss without its graph."""
        optimizer = self.optimizers[name]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def state(self) -> dict[str, Any]:
        """Return weights and the state of the optimizers."""
        weights = {
            f"{name}/{key}": to_array(value)
            for name, network in self.networks.items()
            for key, value in network.state_dict().items()
        }
        moments = {
            f"{name}/{i}/{key}": to_array(value)
            for name, optimizer in self.optimizers.items()
            for i, values in optimizer.state_dict()["state"].items()
            for key, value in values.items()
        }
        return {"weights": weights, "moments": moments}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state."""
        torch = self.torch
        for name, network in self.networks.items():
            own = {
                key: torch.as_tensor(value) for key, value in _select_under(state["weights"], name)
            }
            network.load_state_dict(own)
        for name, optimizer in self.optimizers.items():
            values: dict[int, dict[str, Any]] = {}
            for path, value in _select_under(state["moments"], name):
                i, _, key = path.partition("/")
                values.setdefault(int(i), {})[key] = torch.as_tensor(value)
            optimizer.load_state_dict({**optimizer.state_dict(), "state": values})


def _select_under(state: Arrays, name: str) -> Iterator[tuple[str, np.ndarray]]:
    start = f"{name}/"
    return ((path.removeprefix(start), state[path]) for path in state if path.startswith(start))


class BatchLearner(NetworkLearner):
    """A `NetworkLearner` whose pass is one `step` per batch of samples, which a subclass adds.

    An epoch has at least `min_steps` steps: as many passes as that takes. Losses stay on the device
    until its end, so that no step waits for the one before.
    """

    min_steps = 1

    def __init__(self, torch: Any, device: str, X: np.ndarray, batch_size: int) -> None:
        self.torch, self.device, self.batch_size = torch, device, batch_size
        self.X = self.tensor(X)

    def epoch(self, rng: np.random.Generator) -> float:
        """Make at least one pass over the training samples; return the mean loss."""
        total: Any = 0.0
        n_passes = n_steps = 0
        while n_steps < self.min_steps:
            n_passes += 1
            for rows in batches(len(self.X), self.batch_size, rng):
                total, n_steps = total + len(rows) * self.step(rows, rng), n_steps + 1
        return float(total) / (n_passes * len(self.X))

    @abstractmethod
    def step(self, rows: np.ndarray, rng: np.random.Generator) -> Any:
        """Learn from the samples at these positions; return their mean loss as a tensor."""


def part_of(arrays: Arrays, name: str) -> Arrays:
    """Return the arrays of one network of several."""
    return dict(_select_under(arrays, name))


def network_of(torch: Any, device: str, arrays: Arrays, activations: Sequence[str]) -> Any:
    """Return the network that `arrays_of` took the arrays from."""
    matrices = [arrays[f"W{i}"] for i in range(len(activations))]
    with seed_networks(torch, 0):  # the first weights are replaced
        network = layers(torch, [len(matrices[0]), *(W.shape[1] for W in matrices)], activations)
    linear = [step for step in network if hasattr(step, "weight")]
    with torch.no_grad():
        for i, step in enumerate(linear):
            step.weight.copy_(torch.as_tensor(arrays[f"W{i}"].T))
            step.bias.copy_(torch.as_tensor(arrays[f"b{i}"]))
    return network.to(device)


def root_mean_square(M: np.ndarray) -> np.ndarray:
    """Return it as a float32 array of one number, 1 if all are zeros."""
    return np.array([np.sqrt(np.mean(np.square(M, dtype=np.float64))) or 1], np.float32)


def scale_to_unit(Z: Any) -> Any:
    """Return the rows of a tensor, scaled to length 1; zero rows stay zero."""
    return Z / Z.norm(dim=1, keepdim=True).clamp_min(1e-12)


def zero_layers(torch: Any, sizes: Sequence[int], activations: Sequence[str]) -> Any:
    """Return `layers` whose output begins at 0, to be added to a good initial output."""
    network = layers(torch, sizes, activations)
    *_, last, _ = network
    torch.nn.init.zeros_(last.weight)
    torch.nn.init.zeros_(last.bias)
    return network
