"""Fitted models of every kind, to store in files."""

import copy

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from zonkey import (
    AnyShotClassifier,
    FewShotClassifier,
    Moments,
    MultiLabelClassifier,
    NearestSupport,
    Prototypes,
    ZeroShotClassifier,
    presets,
)

LABELS = np.array(["ass", "cat", "emu", "fox", "hen", "owl", "pig", "yak"])
RNG = np.random.default_rng(0)
MATRIX = RNG.uniform(size=(8, 4))
LOOKS = RNG.normal(size=(4, 6))
CODES = np.repeat(np.arange(6), 12)  # pig and yak are unseen
X = MATRIX[CODES] @ LOOKS + RNG.normal(size=(72, 6)) / 2
Y = LABELS[CODES]
X_NEW = MATRIX[[6, 7, 6]] @ LOOKS + RNG.normal(size=(3, 6)) / 2
KNOWN = Prototypes(LABELS, MATRIX, ["stripes", "mane", "beak", "horns"])
BY_NUMBER = dict(enumerate(MATRIX))


def any_shot(**parameters):
    return AnyShotClassifier(parameters.pop("prototypes", KNOWN), **parameters)


def base_classes():
    return Moments.from_arrays(X, Y, KNOWN)


MODELS = {
    "recommended": lambda: presets.recommended(KNOWN, candidates="all").fit(X, Y),
    "numbers": lambda: any_shot(prototypes=BY_NUMBER, random_state=3).fit(X, CODES),
    "no prototypes": lambda: any_shot(prototypes=None).fit(X, Y),
    "fixed": lambda: any_shot(
        preprocessing=None,
        prototype_transformer=StandardScaler(),
        kernel="poly",
        gamma=0.3,
        ridge=0.2,
        worth=2.5,
        n_shots=2,
        seen_penalty=0.1,
        temperature=0.7,
        adapt_temperature=0.1,
        adapt_weight=0.5,
        random_state=np.random.RandomState(0),
        candidates=["pig", "yak", "ass"],
    ).fit(X, Y),
    "scikit-learn's steps": lambda: any_shot(
        preprocessing=make_pipeline(StandardScaler(), PCA(4), Normalizer())
    ).fit(X, Y),
    "frozen step": lambda: any_shot(
        preprocessing=FrozenEstimator(StandardScaler().fit(X)), reject_below=0.4, candidates="all"
    ).fit(X, Y),
    "transferred": lambda: (
        any_shot(transfer=True, worth="shots", temperature=0.7, adapt_weight=0.5)
        .fit(X, Y)
        .partial_fit(np.repeat(X_NEW, 2, axis=0), np.repeat(["yak", "pig", "gnu"], 2))
    ),
    "precomputed": lambda: any_shot(
        prototypes=Prototypes(LABELS, MATRIX @ MATRIX.T), kernel="precomputed"
    ).fit(X, Y),
    "several labels": lambda: MultiLabelClassifier(KNOWN, missing="unknown").fit(
        X, [[label, "cat"] for label in Y]
    ),
    "float32": lambda: any_shot().fit(X.astype(np.float32), Y),
    "more samples": lambda: any_shot().fit(X, Y).partial_fit(X_NEW, ["yak", "pig", "gnu"]),
    "validation": lambda: any_shot().fit(X[:48], Y[:48], validation=(X[48:], Y[48:])),
    "more classes": lambda: any_shot().fit(X, Y).with_classes({"gnu": [0, 0.1, 0.2, 0.3]}),
    "fewer classes": lambda: any_shot().fit(X, Y).without_classes(["ass", "pig"]),
    "adapted": lambda: any_shot(candidates="all").fit(X, Y).adapt(X[::3] + 0.1),
    "shares": lambda: any_shot(
        prototypes=BY_NUMBER, candidates="all", priors={6: 0.3, 7: 0.02}
    ).fit(X, CODES),
    "adapted to shares": lambda: (
        any_shot(candidates="all").fit(X, Y).adapt(X[::3] + 0.1).with_priors({"yak": 0.5}, seen=0.8)
    ),
    "tensors": lambda: any_shot(prototypes=BY_NUMBER).fit(
        torch.from_numpy(X), torch.from_numpy(CODES)
    ),
    "paper": lambda: presets.paper(KNOWN, candidates="all", random_state=0).fit(X, Y),
    "forward": lambda: ZeroShotClassifier(KNOWN, direction="forward", seen_penalty=0.3).fit(X, Y),
    "reverse": lambda: presets.rpl(KNOWN, candidates=("pig", "yak")).fit(X, Y),
    "one-hot": lambda: ZeroShotClassifier().fit(X, Y),
    "few-shot": lambda: FewShotClassifier(KNOWN, base=base_classes(), random_state=0).fit(
        X_NEW, ["pig", "yak", "pig"]
    ),
    "nearest": lambda: NearestSupport().fit(X, Y),
    "in a pipeline": lambda: make_pipeline(Normalizer(), ZeroShotClassifier(KNOWN)).fit(X, Y),
}
_fitted = {}


def fitted(case):
    if case not in _fitted:
        _fitted[case] = MODELS[case]()
    return copy.deepcopy(_fitted[case])
