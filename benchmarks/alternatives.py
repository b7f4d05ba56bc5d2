"""Compare fit time and accuracy with SciPy, NumPy and scikit-learn.

All methods get the same unit-length features and prototypes, in one run on one thread. Times are
processor times, which exclude other work on the machine. Parameters are defaults: those of the
constructors for zonkey and scikit-learn, those of the peers for the formulas of SAE and ESZSL. No
parameter is chosen on test classes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve, solve_sylvester
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits

from mini_imagenet import folder
from recording import save, save_markdown, show
from zonkey import Prototypes, ZeroShotClassifier, presets
from zonkey.metrics import per_class_accuracy
from zonkey.preprocessing import FeatureNormalizer
from zonkey_lab.datasets.xlsa17 import load_xlsa17
from zonkey_lab.peers.zsl import ESZSL, SAE

N, D, K, SEEN, UNSEEN, TEST_PER_CLASS, NOISE = 19_832, 2_048, 85, 40, 10, 50, 4.0
LAM, GAMMA, ESZSL_LAM = 1.0, 1.0, 0.1  # defaults of zonkey_lab.peers.zsl
MAX_ITER, REPEATS = 100, 2

# Scores of samples X for classes with prototypes Y; higher is better.
Scores = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Data:
    """Training samples of seen classes, and test samples of seen and unseen classes."""

    name: str
    X: np.ndarray
    y: np.ndarray
    prototypes: Prototypes
    seen: tuple[np.ndarray, np.ndarray]
    unseen: tuple[np.ndarray, np.ndarray]

    def classes(self, part: str) -> np.ndarray:
        """Return the candidate classes of "seen" or "unseen" test samples."""
        labels = np.unique(self.y)
        return labels if part == "seen" else np.setdiff1d(self.prototypes.labels, labels)

    @property
    def codes(self) -> np.ndarray:
        """Index of the class of each training sample among the seen classes."""
        return np.unique(self.y, return_inverse=True)[1]

    @property
    def Y_s(self) -> np.ndarray:
        """Prototypes of the seen classes, one per row."""
        return self.prototypes.subset(self.classes("seen")).matrix.astype(np.float64)


def generated() -> Data:
    """Generate rectified, unit-length features around projected attributes, in the size of AwA."""
    rng = np.random.default_rng(0)
    Y = rng.random((SEEN + UNSEEN, K))
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    projection = rng.standard_normal((K, D))

    def features(y: np.ndarray) -> np.ndarray:
        X = np.maximum(Y[y] @ projection + NOISE * rng.standard_normal((len(y), D)), 0)
        return X / np.linalg.norm(X, axis=1, keepdims=True)

    y = np.arange(N) % SEEN
    seen = np.repeat(np.arange(SEEN), TEST_PER_CLASS)
    unseen = np.repeat(np.arange(SEEN, SEEN + UNSEEN), TEST_PER_CLASS)
    known = Prototypes(np.arange(SEEN + UNSEEN), Y)
    name = f"generated, n={N:,}, d={D:,}, k={K}, {SEEN}/{UNSEEN} classes"
    tests = (features(seen), seen), (features(unseen), unseen)
    return Data(name, features(y), y, known, *tests)


def cub() -> Data | None:
    """Load CUB with attributes; return None if it is absent."""
    path = folder().parent / "xlsa17" / "data" / "CUB"
    if not path.exists():
        return None
    data = load_xlsa17(path, features="efficientnet_lite0", semantics="att_splits")
    unit = FeatureNormalizer().fit(data.X_train)
    X, seen, unseen = (
        unit.transform(part.astype(np.float64))
        for part in (data.X_train, data.X_test_seen, data.X_test_unseen)
    )
    known = data.prototypes.normalized()
    name = f"CUB, EfficientNet-Lite0, attributes, n={len(X):,}, d={X.shape[1]:,}"
    return Data(
        name, X, data.y_train, known, (seen, data.y_test_seen), (unseen, data.y_test_unseen)
    )


def sae_by_scipy(data: Data) -> Scores:
    """Solve S S' W + lambda W X X' = (1 + lambda) S X'; scores are cosines of W x and s."""
    X, S = data.X.T, data.Y_s[data.codes].T
    W = solve_sylvester(S @ S.T, LAM * (X @ X.T), (1 + LAM) * (S @ X.T))
    return lambda X, Y: (X @ W.T) @ (Y / np.linalg.norm(Y, axis=1, keepdims=True)).T


def eszsl_by_scipy(data: Data) -> Scores:
    """Return x'V s with V = (X X' + gamma I)^-1 X Y S' (S S' + lambda I)^-1."""
    X, S = data.X.T, data.Y_s.T
    targets = np.where(data.codes[:, None] == np.arange(S.shape[1]), 1.0, -1.0)
    left = X @ X.T + GAMMA * np.eye(len(X))
    right = S @ S.T + ESZSL_LAM * np.eye(len(S))
    half = solve(left, X @ targets @ S.T, assume_a="pos")
    V = solve(right, half.T, assume_a="pos").T
    return lambda X, Y: X @ V @ Y.T


def ridge_to_semantics(data: Data) -> Scores:
    """Regress prototypes on features; predict the nearest prototype."""
    model = Ridge().fit(data.X, data.Y_s[data.codes])
    return lambda X, Y: nearness(model.predict(X), Y)


def ridge_to_features(data: Data) -> Scores:
    """Regress features on prototypes; predict the nearest regressed center."""
    model = Ridge().fit(data.Y_s[data.codes], data.X)
    return lambda X, Y: nearness(X, model.predict(Y))


def nearness(Z: np.ndarray, centers: np.ndarray) -> np.ndarray:
    return 2 * Z @ centers.T - (centers * centers).sum(axis=1)


ALTERNATIVES = {
    "SAE, scipy.linalg.solve_sylvester": sae_by_scipy,
    "ESZSL, scipy.linalg.solve": eszsl_by_scipy,
    "sklearn Ridge, features to semantics": ridge_to_semantics,
    "sklearn Ridge, semantics to features": ridge_to_features,
}
OURS = {
    "zonkey ZeroShotClassifier (paper)": lambda known: ZeroShotClassifier(known, random_state=0),
    "zonkey peers SAE": SAE,
    "zonkey peers ESZSL": ESZSL,
    "zonkey presets.rpl": presets.rpl,
}


def best_of(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shortest of `REPEATS` times, and the last result."""
    seconds, result = [], None
    for _ in range(REPEATS):
        start = time.process_time()
        result = work()
        seconds.append(time.process_time() - start)
    return min(seconds), result


def accuracies(data: Data, scores: Scores) -> dict[str, float]:
    found = {}
    for part in ("unseen", "seen"):
        (X, y), classes = getattr(data, part), data.classes(part)
        Y = data.prototypes.subset(classes).matrix.astype(np.float64)
        found[part] = per_class_accuracy(y, classes[scores(X, Y).argmax(axis=1)])
    return found


def own_accuracies(data: Data, model: Any, prepare: Callable = lambda X: X) -> dict[str, float]:
    return {
        part: model.with_candidates(data.classes(part)).score(prepare(X), y)
        for part, (X, y) in (("unseen", data.unseen), ("seen", data.seen))
    }


def logistic(data: Data) -> tuple[float, dict[str, float]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the row states max_iter
        fit = LogisticRegression(max_iter=MAX_ITER).fit
        seconds, model = best_of(lambda: fit(data.X, data.y))
    X, y = data.seen
    return seconds, {"seen": per_class_accuracy(y, model.predict(X))}


def recommended(data: Data) -> tuple[float, float, dict[str, float]]:
    """Return the times of a fit that chooses and of one that does not, and accuracies."""
    start = time.process_time()
    model = presets.recommended(data.prototypes, candidates="unseen").fit(data.X, data.y)
    whole = time.process_time() - start
    again = presets.recommended(data.prototypes, candidates="unseen", **model.best_params_)
    seconds, _ = best_of(lambda: again.fit(data.X, data.y))
    return whole, seconds, own_accuracies(data, model)


def compare(data: Data) -> list[dict[str, Any]]:
    found: dict[str, tuple[float, dict[str, float]]] = {}
    for name, make in OURS.items():
        seconds, model = best_of(lambda: make(data.prototypes).fit(data.X, data.y))  # noqa: B023
        found[name] = seconds, own_accuracies(data, model)
    for name, fit in ALTERNATIVES.items():
        seconds, scores = best_of(lambda: fit(data))  # noqa: B023
        found[name] = seconds, accuracies(data, scores)
    found[f"sklearn LogisticRegression, max_iter={MAX_ITER}"] = logistic(data)
    whole, seconds, scores = recommended(data)
    found[f"zonkey presets.recommended, chosen in {whole:.0f} s"] = seconds, scores
    unit = found["zonkey ZeroShotClassifier (paper)"][0]
    return [
        {
            "method": name,
            "fit (s)": float(f"{seconds:.3g}"),
            "ratio": float(f"{seconds / unit:.3g}"),
            "unseen (%)": f"{100 * scores['unseen']:.1f}" if "unseen" in scores else "-",
            "seen (%)": f"{100 * scores['seen']:.1f}",
        }
        for name, (seconds, scores) in found.items()
    ]


NOTES = f"""
Times are processor times on one thread, the best of {REPEATS} fits on the same float64 matrix.
"ratio" is relative to zonkey's `ZeroShotClassifier`, which also synthesizes samples and solves up
to five more equations. Accuracy is the mean over classes: "unseen" for unseen classes among the
unseen ones, "seen" for held-out samples among the seen classes. Logistic regression uses no
prototypes and cannot predict an unseen class.

Parameters are defaults: SAE lambda = {LAM:g}, ESZSL gamma = {GAMMA:g} and lambda = {ESZSL_LAM:g}
in both implementations, `Ridge(alpha=1)`, `LogisticRegression(C=1)`, the paper's for
`ZeroShotClassifier`. `presets.recommended` chooses its own on held-out training classes.
The data are generated. Their noise was set by hand after a few
trials on smaller data, so that methods differ. Equal accuracies of the same method show that its
implementations agree; these data do not tell which method is best.
"""


def main() -> None:
    threadpool_limits(1)
    data = generated()
    rows = compare(data)
    title = f"zonkey and alternatives: {data.name}"
    show(title, rows)
    save("alternatives", {"rows": rows})
    save_markdown("alternatives", title, "python benchmarks/alternatives.py", rows, below=NOTES)
    real = cub()
    if real is None:
        print(f"No CUB features in {folder().parent}; set ZONKEY_DATA.")
        return
    rows = compare(real)
    show(f"zonkey and alternatives: {real.name}", rows)
    print(f"Record: {save('alternatives_cub', {'data': real.name, 'rows': rows})}")


if __name__ == "__main__":
    main()
