"""Figures on real features, where they are present (ZONKEY_DATA, or ../shared/data)."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat

from zonkey import Prototypes, presets
from zonkey.metrics import generalized_scores

ROOT = Path(os.environ.get("ZONKEY_DATA", Path(__file__).parents[2] / "shared" / "data"))
CUB = ROOT / "xlsa17" / "data" / "CUB"

pytestmark = pytest.mark.skipif(
    not (CUB / "efficientnet_lite0.mat").exists(),
    reason=f"no CUB features in {CUB}; set ZONKEY_DATA to the folder that holds xlsa17/",
)


@pytest.fixture(scope="module")
def cub():
    features, splits = loadmat(CUB / "efficientnet_lite0.mat"), loadmat(CUB / "att_splits.mat")
    names = np.array([str(name[0]) for name in splits["allclasses_names"].ravel()])
    X = features["features"].T.astype(np.float64)
    y = names[features["labels"].ravel().astype(int) - 1]
    parts = {
        part: splits[f"{part}_loc"].ravel() - 1 for part in ("trainval", "test_seen", "test_unseen")
    }
    return X, y, Prototypes(names, splits["att"].T), parts


def test_bidirectional_projection_on_cub(cub):
    X, y, prototypes, parts = cub
    train, unseen = parts["trainval"], parts["test_unseen"]
    model = presets.paper(prototypes, synthesis=None).fit(X[train], y[train])
    assert 100 * model.score(X[unseen], y[unseen]) == pytest.approx(56.1, abs=0.3)

    test = np.concatenate([parts["test_seen"], unseen])
    general = model[-1].with_candidates("all")
    predicted = general.predict(model[0].transform(X[test]))
    scores = generalized_scores(y[test], predicted, general.seen_classes_)
    assert 100 * scores.harmonic_mean == pytest.approx(36.5, abs=0.5)
