"""Compare accuracy and time of 5-way tasks with the few-shot heads of easyfsl.

All methods get the same unit-length features and the same tasks as
`zonkey_lab.protocols.n_way_k_shot`, one after the other on one thread, with balanced and with
unbalanced queries. The columns of easyfsl are omitted if it is not installed. `--tasks` sets the
number of tasks.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from types import ModuleType
from typing import Any, Self

import numpy as np
from threadpoolctl import threadpool_limits

from mini_imagenet import folder
from recording import save, save_page, show
from zonkey import AnyShotClassifier, BaseClasses, FewShotClassifier, Moments, Prototypes, presets
from zonkey.bpl.nearest_support import NearestSupport
from zonkey.evaluation.protocols import draw_trial
from zonkey.files.dataset import Dataset
from zonkey.files.emoji import load_emoji
from zonkey.metrics import mean_confidence_interval
from zonkey.preprocessing import FeatureNormalizer
from zonkey_lab.datasets.mini_imagenet import load_mini_imagenet
from zonkey_lab.peers import Training, fsl

WAYS, CONCENTRATION = 5, 2.0
BASE, NOVEL, PER_CLASS, D, K, LATENT, NOISE = 80, 20, 100, 640, 384, 40, 4.0
MISSING = "No columns for easyfsl. Install it: pip install --no-deps easyfsl (requires torch)."


@dataclass(frozen=True, eq=False)
class Problem:
    """Base classes, samples of novel classes, and the size of a task."""

    name: str
    X_base: np.ndarray
    y_base: np.ndarray
    prototypes: Prototypes
    X: np.ndarray
    y: np.ndarray
    shots: tuple[int, ...]
    n_query: int
    queries: np.ndarray | None = None  # samples that are never shots
    chosen: dict[str, Any] = field(default_factory=dict)  # parameters of the recommended model

    def tasks(
        self, n_tasks: int, n_shot: int, concentration: float | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        """Yield support set, queries and seed per task, as `n_way_k_shot` draws them."""
        sizes: dict[str, Any] = {"n_way": WAYS, "n_shot": n_shot, "n_query": self.n_query}
        sizes |= {"queries": self.queries, "concentration": concentration}
        for number in range(n_tasks):
            rng = np.random.default_rng([0, number])
            trial = draw_trial(self.y, np.unique(self.y), **sizes, rng=rng)
            yield trial.support, trial.query, int(rng.integers(2**31 - 1))

    def balances(self) -> dict[str, float | None]:
        """Return the distributions of queries that there are enough samples for."""
        unbalanced = {f"Dirichlet({CONCENTRATION:g})": CONCENTRATION}
        return {"balanced": None, **({} if self.queries is not None else unbalanced)}


def unit(X: np.ndarray) -> np.ndarray:
    return FeatureNormalizer().fit_transform(X.astype(np.float64))


def generated() -> Problem:
    """Generate rectified features and prototypes from a shared latent code."""
    rng = np.random.default_rng(0)
    latent = rng.standard_normal((BASE + NOVEL, LATENT))
    Y = latent @ rng.standard_normal((LATENT, K))
    Y += 3 * Y.std() * rng.standard_normal(Y.shape)  # no description is perfect
    centers = latent @ rng.standard_normal((LATENT, D)) / LATENT**0.5
    y = np.repeat(np.arange(BASE + NOVEL), PER_CLASS)
    X = unit(np.maximum(centers[y] + NOISE * rng.standard_normal((len(y), D)), 0))
    known, base = Prototypes(np.arange(BASE + NOVEL), Y), y < BASE
    name = f"generated, d={D}, {BASE}/{NOVEL} classes"
    return Problem(name, X[base], y[base], known, X[~base], y[~base], (1, 5), 15)


def emoji() -> Problem:
    """Load the embedded emoji: four pictures per class may be shots, the fifth is the query."""
    data = load_emoji(split="few-shot")
    queries = np.flatnonzero(np.isin(data.split.novel, data.split.query))
    return Problem("emoji", **parts(data), shots=(1, 4), n_query=1, queries=queries)


def mini_imagenet() -> Problem | None:
    """Load mini-ImageNet features; choose parameters on validation classes."""
    if not folder().exists():
        return None
    early = load_mini_imagenet(folder() / "wrn28_10_train64.npz", novel="val")
    late = load_mini_imagenet(folder() / "wrn28_10.npz", novel="test")
    of_early = parts(early)
    model = presets.recommended(of_early["prototypes"], candidates="unseen", n_shots=1)
    validation = of_early["X"], of_early["y"]
    model.fit(of_early["X_base"], of_early["y_base"], validation=validation)
    chosen = model.best_params_
    return Problem("mini-ImageNet", **parts(late), shots=(1, 5), n_query=15, chosen=chosen)


def parts(data: Dataset) -> dict[str, Any]:
    novel = data.split.novel
    return {
        "X_base": unit(data.X_train),
        "y_base": data.y_train,
        "prototypes": data.prototypes,
        "X": unit(data.X[novel]),
        "y": data.y[novel],
    }


class Head:
    """A few-shot head of easyfsl with the interface of zonkey's estimators."""

    def __init__(self, head: Any, dtype: Any = np.float64, **options: Any) -> None:
        self.head, self.dtype, self.options = head, dtype, options

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Process the support set."""
        import torch

        self.classes_, codes = np.unique(y, return_inverse=True)
        self.fitted_ = self.head(**self.options)
        self.fitted_.process_support_set(self._tensor(X), torch.from_numpy(codes))
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict the class of each query; a transductive head uses all queries together."""
        import torch

        with torch.no_grad():
            return self.classes_[self.fitted_(self._tensor(X)).argmax(dim=1).numpy()]

    def _tensor(self, X: np.ndarray) -> Any:
        import torch

        return torch.from_numpy(X.astype(self.dtype, copy=False))


def easyfsl_heads(problem: Problem) -> dict[str, Any]:
    """Return classes and common options of easyfsl, or nothing if it is not installed."""
    try:
        import torch

        package = importlib.import_module("easyfsl")
    except ImportError:
        print(MISSING)
        return {}
    torch.set_num_threads(1)
    # Importing the package of methods would also import backbones, which require torchvision.
    for part in ("methods", "modules"):
        module = ModuleType(f"easyfsl.{part}")
        module.__path__ = [f"{package.__path__[0]}/{part}"]
        sys.modules[module.__name__] = module
    # The default networks, which import torchvision, are replaced by the untrained ones of zonkey.
    defaults: Any = ModuleType("easyfsl.modules.predesigned_modules")
    for name in ("matching_networks_query_encoder", "matching_networks_support_encoder"):
        setattr(defaults, f"default_{name}", None)
    defaults.default_relation_module = None
    sys.modules[defaults.__name__] = defaults
    mean = torch.from_numpy(problem.X_base.mean(axis=0))
    found = {"centered": {"feature_centering": mean, "feature_normalization": 2}}
    found["centered float32"] = found["centered"] | {"feature_centering": mean.float()}
    names = {
        "prototypical_networks": "PrototypicalNetworks",
        "matching_networks": "MatchingNetworks",
        "relation_networks": "RelationNetworks",
        "pt_map": "PTMAP",
        "laplacian_shot": "LaplacianShot",
        "tim": "TIM",
        "bd_cspn": "BDCSPN",
    }
    for file, name in names.items():
        found[name] = getattr(importlib.import_module(f"easyfsl.methods.{file}"), name)
    return found


def pairs(problem: Problem) -> dict[str, tuple[Any, Any]]:
    """Return a model of zonkey, and the head of easyfsl with the same parameters or None.

    Heads that learn on episodes are compared as they are before training.
    """
    base, easy = fsl.BaseSamples(problem.X_base, problem.y_base), easyfsl_heads(problem)
    centered, narrow = easy.get("centered", {}), easy.get("centered float32", {})

    def head(name: str, *arguments: Any, **options: Any) -> Head | None:
        return Head(easy[name], *arguments, **options) if easy else None

    found: dict[str, tuple[Any, Any]] = {
        "prototypical, raw": (fsl.SimpleShot(normalization=None), head("PrototypicalNetworks")),
        "BD-CSPN": (fsl.BDCSPN(base), head("BDCSPN", **centered)),
        "LaplacianShot": (
            fsl.LaplacianShot(base),
            head("LaplacianShot", np.float32, **narrow),  # it does not take float64
        ),
        "TIM, 50 steps": (
            fsl.TIM(base, metric="cosine", temperature=10.0, support_weight=1.0, n_steps=50),
            head("TIM", **centered),
        ),
        "PT-MAP, no centering, 10 steps": (
            fsl.PTMAP(normalization=None, n_steps=10),
            head("PTMAP"),
        ),
    }
    return {**untrained(base, easy), **found}


def untrained(base: fsl.BaseSamples, easy: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the pairs of the heads that learn on episodes, before training."""
    training = Training(max_iter=0, device="cpu")
    options: dict[str, Any] = {"training": training, "random_state": 0}
    models: dict[str, Any] = {
        "prototypical": fsl.PrototypicalNetwork(base, **options),
        # The encoders that read all shots add nothing before training; easyfsl gets none.
        "matching": fsl.MatchingNetwork(base, full_context=False, **options),
        "relation": fsl.RelationNetwork(base, **options),
    }
    if not easy:
        return {name: (model, None) for name, model in models.items()}
    given = {"feature_dimension": base.n_features}
    relation = {**given, **relation_parts(base, models["relation"])}
    heads = {
        "prototypical": Head(easy["PrototypicalNetworks"], **easy["centered"]),
        "matching": Head(easy["MatchingNetworks"], np.float32, **given, **matching_parts(base)),
        "relation": Head(easy["RelationNetworks"], np.float32, **relation),
    }
    return {name: (model, heads[name]) for name, model in models.items()}


def matching_parts(base: fsl.BaseSamples) -> dict[str, Any]:
    """Return encoders that add nothing, and cosines times 10, where zonkey's training begins."""
    import torch

    mean = torch.from_numpy(base.mean).float()

    class Units(torch.nn.Module):
        def forward(self, X: Any) -> Any:
            return 10 * torch.nn.functional.normalize(X - mean)

    class Reader(torch.nn.Module):
        def forward(self, X: Any) -> Any:
            return torch.zeros(*X.shape[:2], 2 * X.shape[2]), None

    class Cell(torch.nn.Module):
        def forward(self, X: Any, state: Any) -> Any:  # noqa: ARG002
            return torch.zeros_like(state[0]), state[1]

    return {"backbone": Units(), "support_encoder": Reader(), "query_encoder": Cell()}


def relation_parts(base: fsl.BaseSamples, model: Any) -> dict[str, Any]:
    """Return the features as maps of one pixel, and the weights where zonkey's training begins."""
    import torch

    mean = torch.from_numpy(base.mean).float()
    few = base.X[: 2 * WAYS]  # any samples: the weights do not depend on them
    fitted = model.fit(few, [f"class {i // 2}" for i in range(len(few))])
    W0, b0, W1, b1 = (
        torch.from_numpy(fitted.weights_[name]).float() for name in ("W0", "b0", "W1", "b1")
    )

    class Pixels(torch.nn.Module):
        def forward(self, X: Any) -> Any:
            return torch.nn.functional.normalize(X - mean)[:, :, None, None]

    class Relation(torch.nn.Module):
        def forward(self, pairs: Any) -> Any:
            return torch.relu(pairs.flatten(1) @ W0 + b0) @ W1 + b1

    return {"backbone": Pixels(), "relation_module": Relation()}


def models(problem: Problem) -> dict[str, Any]:
    """Return models without a counterpart; they have their default parameters."""
    moments = Moments(problem.prototypes.normalized()).update(problem.X_base, problem.y_base)
    base = fsl.BaseSamples(problem.X_base, problem.y_base)
    chosen = {"candidates": "unseen", "n_shots": 1, **problem.chosen}
    recommended = presets.recommended(problem.prototypes, **chosen)
    recommended.fit(problem.X_base, problem.y_base)
    return {
        "NearestSupport": NearestSupport(),
        "NearestSupport, mean": NearestSupport("mean"),
        "SimpleShot": fsl.SimpleShot(base),
        "FewShotClassifier (paper)": FewShotClassifier(base=BaseClasses(moments)),
        "presets.recommended": recommended,
        "PT-MAP, adapt": Adapting(fsl.PTMAP()),
        "PT-MAP, unknown proportions, adapt": Adapting(fsl.PTMAP(priors=None)),
        "LaplacianShot, adapt": Adapting(fsl.LaplacianShot(base)),
        "TIM, adapt": Adapting(fsl.TIM(base)),
        "alpha-TIM, adapt": Adapting(fsl.TIM(base, alpha=2.0)),
        "BD-CSPN, adapt": Adapting(fsl.BDCSPN(base)),
    }


@dataclass
class Adapting:
    """A model that also learns from the queries, without labels."""

    model: Any


def answers(model: Any, problem: Problem, support: Any, query: Any, seed: int) -> np.ndarray:
    """Return the predictions of one task; a model of zonkey that can adapts to the queries."""
    X, y, X_query = problem.X[support], problem.y[support], problem.X[query]
    adapts = isinstance(model, Adapting)
    model = model.model if adapts else model
    if isinstance(model, AnyShotClassifier):
        fitted = model.with_shots(X, y)
    else:
        fitted = seeded(model, seed).fit(X, y)
    return (fitted.adapt(X_query) if adapts else fitted).predict(X_query)


def seeded(model: Any, seed: int) -> Any:
    if isinstance(model, Head):
        return model
    names = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
    return model.set_params(**dict.fromkeys(names, seed))


def measured(
    model: Any, problem: Problem, n_tasks: int, n_shot: int, concentration: float | None
) -> tuple[np.ndarray, float]:
    """Return the share of correct queries of each task, and the mean processor time in ms."""
    shares, seconds = [], 0.0
    for support, query, seed in problem.tasks(n_tasks, n_shot, concentration):
        start = time.process_time()
        predicted = answers(model, problem, support, query, seed)
        seconds += time.process_time() - start
        shares.append(np.mean(predicted == problem.y[query]))
    return 100 * np.array(shares), 1000 * seconds / n_tasks


def compare_pairs(problem: Problem, n_tasks: int) -> list[dict[str, Any]]:
    """Return a row per method, shots and distribution of queries."""
    rows, both = [], pairs(problem)
    for n_shot in problem.shots:
        for balance, concentration in problem.balances().items():
            sizes = (problem, n_tasks, n_shot, concentration)
            for name, (model, head) in both.items():
                ours = Adapting(model) if hasattr(model, "adapt") else model
                shares, ms = measured(ours, *sizes)
                row = {"data": problem.name, "shots": n_shot, "queries": balance, "method": name}
                row |= {"zonkey (%)": shown(shares), "zonkey s / 1,000 tasks": rounded(ms)}
                if head is not None:
                    theirs, their_ms = measured(head, *sizes)
                    row |= {
                        "easyfsl (%)": shown(theirs),
                        "easyfsl s / 1,000 tasks": rounded(their_ms),
                        "difference": f"{np.mean(shares - theirs):+.2f}",
                        "times faster": rounded(their_ms / ms),
                    }
                rows.append(row)
    return rows


def compare(problem: Problem, n_tasks: int) -> list[dict[str, Any]]:
    """Return a row per model without counterpart, shots and distribution of queries."""
    rows, everything = [], models(problem)
    for n_shot in problem.shots:
        for balance, concentration in problem.balances().items():
            for name, model in everything.items():
                shares, ms = measured(model, problem, n_tasks, n_shot, concentration)
                row = {"data": problem.name, "shots": n_shot, "queries": balance, "method": name}
                rows.append({**row, "accuracy (%)": shown(shares), "ms per task": rounded(ms)})
    return rows


def shown(shares: np.ndarray) -> str:
    interval = mean_confidence_interval(shares)
    return f"{interval.mean:.1f} +- {interval.half_width:.1f}"


def rounded(value: float) -> float:
    return float(f"{value:.3g}")


def notes(n_tasks: int) -> str:
    try:
        heads = f"easyfsl {version('easyfsl')} with torch {version('torch')}"
    except ImportError:
        heads = "easyfsl"
    return f"""
{n_tasks} tasks of {WAYS} classes; 15 queries per class for generated data, 1 for emoji, which have
five pictures per class. Accuracy is the share of correct queries, with its 95 % confidence interval
over tasks. Queries are balanced, or the shares of the classes are drawn from a symmetric Dirichlet
distribution, as `n_way_k_shot(..., concentration={CONCENTRATION:g})` does. Time is the mean
processor time of support set and prediction together, on one thread; base classes are prepared
before.

First table: {heads} and zonkey with the same parameters, those of easyfsl. Features have unit
length and float64, but float32 where easyfsl takes nothing else (LaplacianShot). Heads that learn
on episodes are compared before training, with zonkey's initial weights in both. The learned
matrices of prototypical and matching networks, which easyfsl does not have, take most of their
time. Where a task takes a millisecond, checks of the input do.

Second table: models of zonkey with default parameters. Those with "adapt", and BD-CSPN,
LaplacianShot, TIM and PT-MAP in the first table, are transductive: they use all queries of a task
together, and are not comparable with others. PT-MAP also requires that classes have equally many
queries, unless proportions are unknown to it. Its power transform clips negative values in easyfsl
and keeps their sign in zonkey; the features of emoji are principal components. FewShotClassifier
and presets.recommended also use a prototype per class.

The noise of the generated features and prototypes was set by hand after a few trials: with less
noise several methods reached 100 %. How much a prototype helps there is a choice, not a finding.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100, help="number of tasks")
    n_tasks = parser.parse_args().tasks
    title, command = f"{WAYS}-way tasks compared with easyfsl", "few_shot_alternatives"
    with threadpool_limits(1):
        problems = generated(), emoji()
        tables = {
            "zonkey and easyfsl, same parameters": [
                row for problem in problems for row in compare_pairs(problem, n_tasks)
            ],
            "Models of zonkey": [row for problem in problems for row in compare(problem, n_tasks)],
        }
        for heading, rows in tables.items():
            show(f"{title}: {heading}", rows)
        save(command, {"tables": tables, "tasks": n_tasks})
        save_page(command, title, f"python benchmarks/{command}.py", tables, below=notes(n_tasks))
        real = mini_imagenet()
        if real is None:
            print(f"No features in {folder()}; set ZONKEY_DATA.")
            return
        tables = {"pairs": compare_pairs(real, n_tasks), "models": compare(real, n_tasks)}
        for heading, rows in tables.items():
            show(f"{title}: {real.name}, {heading}", rows)
        chosen = {name: str(value) for name, value in real.chosen.items()}
        record = {"tables": tables, "tasks": n_tasks, "chosen": chosen}
        print(f"Record: {save(f'{command}_mini_imagenet', record)}")


if __name__ == "__main__":
    main()
