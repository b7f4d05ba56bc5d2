"""Figures on real features, if they are present (ZONKEY_DATA, or ../shared/data)."""

import os
from pathlib import Path

import numpy as np
import pytest

from zonkey import presets, to_onnx
from zonkey.metrics import generalized_scores
from zonkey_lab.datasets.xlsa17 import load_xlsa17

ROOT = Path(os.environ.get("ZONKEY_DATA", Path(__file__).parents[4] / "shared" / "data"))
CUB = ROOT / "xlsa17" / "data" / "CUB"

pytestmark = pytest.mark.skipif(
    not (CUB / "efficientnet_lite0.mat").exists(),
    reason=f"no CUB features in {CUB}; set ZONKEY_DATA to the folder that holds xlsa17/",
)


@pytest.fixture(scope="module")
def cub():
    return load_xlsa17(CUB, features="efficientnet_lite0")


def test_bidirectional_projection_on_cub(cub):
    model = presets.paper(cub.prototypes, synthesis=None).fit(cub.X_train, cub.y_train)
    # Between chance (2 %) and what labeled samples would give; the figure is for a report.
    assert 0.4 < model.score(cub.X_test_unseen, cub.y_test_unseen) < 0.8

    X = np.concatenate([cub.X_test_seen, cub.X_test_unseen])
    y = np.concatenate([cub.y_test_seen, cub.y_test_unseen])
    general = model[-1].with_candidates("all")
    scores = generalized_scores(y, general.predict(model[0].transform(X)), cub.seen_classes)
    assert scores.unseen < scores.seen, "seen classes should be favored"
    assert 0.2 < scores.harmonic_mean < 0.6


@pytest.mark.exhaustive  # graphs of small problems are tested in the library
def test_graph_of_the_recommended_model_on_cub(cub):
    onnxruntime = pytest.importorskip("onnxruntime", reason="graphs are run by onnxruntime")
    model = presets.recommended(cub.prototypes, candidates="all").fit(cub.X_train, cub.y_train)
    X = np.concatenate([cub.X_test_seen, cub.X_test_unseen]).astype(np.float32)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    label, probabilities = session.run(["label", "probabilities"], {"features": X})
    assert np.abs(probabilities - model.predict_proba(X)).max() < 1e-5
    # float32 cannot tell scores apart that are closer.
    scores = np.sort(model.decision_function(X.astype(np.float64)), axis=1)
    clear = scores[:, -1] - scores[:, -2] > 1e-6
    assert clear.mean() > 0.999
    assert (label == model.predict(X))[clear].all()
