"""Compare accuracy and time of 5-way tasks with the PT-MAP and prototypical heads of easyfsl.

All methods get the same unit-length features and the same tasks as
`zonkey.evaluation.n_way_k_shot`, one after the other on one thread. The rows of easyfsl are
omitted if it is not installed.
"""

from __future__ import annotations

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
from recording import save, save_markdown, show
from zonkey import AnyShotClassifier, BaseClasses, FewShotClassifier, Moments, Prototypes, presets
from zonkey.datasets import Dataset, load_emoji, load_mini_imagenet
from zonkey.estimators import NearestSupport
from zonkey.evaluation import draw_trial
from zonkey.metrics import mean_confidence_interval, per_class_accuracy
from zonkey.preprocessing import FeatureNormalizer

WAYS, TASKS = 5, 100
BASE, NOVEL, PER_CLASS, D, K, LATENT, NOISE = 80, 20, 100, 640, 384, 40, 4.0
MISSING = "No rows for easyfsl. Install it: pip install --no-deps easyfsl (requires torch)."


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

    def tasks(self, n_shot: int) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
        """Yield support set, queries and seed per task, as `n_way_k_shot` draws them."""
        sizes = {"n_way": WAYS, "n_shot": n_shot, "n_query": self.n_query}
        for number in range(TASKS):
            rng = np.random.default_rng([0, number])
            trial = draw_trial(self.y, np.unique(self.y), **sizes, queries=self.queries, rng=rng)
            yield trial.support, trial.query, int(rng.integers(2**31 - 1))


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
    model = presets.recommended(of_early["prototypes"], n_shots=1)
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

    def __init__(self, head: Any, **options: Any) -> None:
        self.head, self.options = head, options

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Process the support set."""
        import torch

        self.classes_, codes = np.unique(y, return_inverse=True)
        self.fitted_ = self.head(torch.nn.Identity(), **self.options)
        self.fitted_.process_support_set(torch.from_numpy(X), torch.from_numpy(codes))
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict the class of each query; a transductive head uses all queries together."""
        import torch

        with torch.inference_mode():
            return self.classes_[self.fitted_(torch.from_numpy(X)).argmax(dim=1).numpy()]


def easyfsl_heads(problem: Problem) -> dict[str, Head]:
    """Return the heads of easyfsl, or an empty dictionary if it is not installed."""
    try:
        import torch

        package = importlib.import_module("easyfsl")
    except ImportError:
        print(MISSING)
        return {}
    torch.set_num_threads(1)
    # Importing the package of methods would also import backbones, which require torchvision.
    methods = ModuleType("easyfsl.methods")
    methods.__path__ = [f"{package.__path__[0]}/methods"]
    sys.modules["easyfsl.methods"] = methods
    prototypical = importlib.import_module("easyfsl.methods.prototypical_networks")
    pt_map = importlib.import_module("easyfsl.methods.pt_map")
    mean = torch.from_numpy(problem.X_base.mean(axis=0))
    centered = {"feature_centering": mean, "feature_normalization": 2}
    heads = prototypical.PrototypicalNetworks
    return {
        "easyfsl prototypical": Head(heads),
        "easyfsl prototypical, centered, unit length": Head(heads, **centered),
        "easyfsl PT-MAP (transductive)": Head(pt_map.PTMAP),
    }


def models(problem: Problem) -> dict[str, Any]:
    moments = Moments(problem.prototypes.normalized()).update(problem.X_base, problem.y_base)
    chosen = {"n_shots": 1, **problem.chosen}
    model = presets.recommended(problem.prototypes, **chosen)
    return {
        "zonkey NearestSupport": NearestSupport(),
        "zonkey NearestSupport, mean": NearestSupport("mean"),
        "zonkey FewShotClassifier (paper)": FewShotClassifier(base=BaseClasses(moments)),
        "zonkey presets.recommended": model.fit(problem.X_base, problem.y_base),
        **easyfsl_heads(problem),
    }


def seeded(model: Any, seed: int) -> Any:
    if isinstance(model, Head):
        return model
    names = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
    return model.set_params(**dict.fromkeys(names, seed))


def compare(problem: Problem) -> list[dict[str, Any]]:
    rows = []
    for n_shot in problem.shots:
        for name, model in models(problem).items():
            scores, seconds = [], []
            for support, query, seed in problem.tasks(n_shot):
                start = time.process_time()
                if isinstance(model, AnyShotClassifier):
                    fitted = model.with_shots(problem.X[support], problem.y[support])
                else:
                    fitted = seeded(model, seed).fit(problem.X[support], problem.y[support])
                predicted = fitted.predict(problem.X[query])
                seconds.append(time.process_time() - start)
                scores.append(per_class_accuracy(problem.y[query], predicted))
            interval = mean_confidence_interval(scores)
            rows.append(
                {
                    "data": problem.name,
                    "shots": n_shot,
                    "method": name,
                    "accuracy (%)": f"{100 * interval.mean:.1f} +- {100 * interval.half_width:.1f}",
                    "ms per task": float(f"{1000 * np.median(seconds):.3g}"),
                }
            )
    return rows


def notes() -> str:
    try:
        heads = f"easyfsl {version('easyfsl')} with torch {version('torch')}"
    except ImportError:
        heads = "easyfsl"
    return f"""
{TASKS} tasks of {WAYS} classes; 15 queries per class for generated data, 1 for emoji, which have
five pictures per class. Accuracy with its 95 % confidence interval over tasks. Time is the median
processor time of support set and prediction together, on one thread; base classes are prepared
before. {heads} on float64 features of unit length, with its own power transform in PT-MAP.
Without unit length, or in float32, the exponentials of PT-MAP can underflow. Parameters are
defaults.

PT-MAP is transductive: it uses all queries of a task together, and assumes that classes have
equally many. The other methods classify each query alone and are not comparable with it. Its
power transform clips negative values, which suits rectified features; the features of emoji are
principal components. zonkey's models also use a prototype per class, unlike the heads of easyfsl
and `NearestSupport`.

The noise of the generated features and prototypes was set by hand after a few trials: with less
noise several methods reached 100 %. How much a prototype helps there is a choice, not a finding.
"""


def main() -> None:
    with threadpool_limits(1):
        rows = [row for problem in (generated(), emoji()) for row in compare(problem)]
        title = f"{WAYS}-way tasks compared with easyfsl"
        show(title, rows)
        save("few_shot_alternatives", {"rows": rows})
        command = "python benchmarks/few_shot_alternatives.py"
        save_markdown("few_shot_alternatives", title, command, rows, below=notes())
        real = mini_imagenet()
        if real is None:
            print(f"No features in {folder()}; set ZONKEY_DATA.")
            return
        rows = compare(real)
        show(f"{WAYS}-way tasks compared with easyfsl: {real.name}", rows)
        record = {"rows": rows, "tasks": TASKS, "worths": [real.worth, real.plain_worth]}
        print(f"Record: {save('few_shot_alternatives_mini_imagenet', record)}")


if __name__ == "__main__":
    main()
