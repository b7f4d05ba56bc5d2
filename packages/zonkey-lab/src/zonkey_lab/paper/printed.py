"""The figures printed in the paper, as data, to compare with measured ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zonkey.metrics.generalized import harmonic_mean

_RESNET101 = "ResNet101"
_GOOGLENET = "GoogLeNet"
_RESNET50 = "ResNet50"
_ROUNDING = 0.05  # largest error of a figure with one decimal


@dataclass(frozen=True)
class Printed:
    """One figure of the paper, in percent unless the metric says otherwise.

    `model` is the name used in this package; for other systems, the paper's name. `spread` is the
    half-width of the 95 % confidence interval, if printed. `features` is the backbone: figures on
    different features are not comparable.
    """

    source: str
    data: str
    model: str
    metric: str
    value: float
    spread: float | None = None
    features: str = _RESNET101


def _rows(
    source: str,
    columns: list[tuple[str, str]],
    rows: dict[str, list],
    imnet_features: str = _GOOGLENET,
) -> Iterator[Printed]:
    for model, values in rows.items():
        for (data, metric), value in zip(columns, values, strict=True):
            if value is not None:
                features = imnet_features if data == "imnet" else _RESNET101
                yield Printed(source, data, model, metric, value, features=features)


_ZSL = [("awa1", "zsl"), ("cub", "zsl"), ("sun", "zsl"), ("imnet", "hit@5")]
_PURE = {
    "CMT": [39.5, 34.6, 39.9, None],
    "DeViSE": [54.2, 52.0, 56.5, 12.8],
    "DAP": [44.1, 40.0, 39.9, None],
    "ConSE": [45.6, 34.3, 38.8, 15.5],
    "SSE": [60.1, 43.9, 51.5, None],
    "SJE": [65.6, 53.9, 53.7, None],
    "ALE": [59.9, 54.9, 58.1, None],
    "SynC": [54.0, 55.6, 56.3, None],
    "CVAE": [71.4, 52.1, 61.7, 24.7],
    "SAE": [61.3, 48.2, 59.2, 27.2],
    "DEM": [68.4, 51.7, 61.9, 25.7],
    "VZSL": [None, None, None, 23.1],
    "SP-AEN": [58.5, 55.4, 59.2, None],
    "GAN+ALE": [68.2, 61.5, 62.1, None],
    "BPL": [74.1, 61.9, 63.2, 28.2],
}
_GENERAL = [(data, m) for data in ("awa1", "cub", "sun") for m in ("acc_s", "acc_u", "hm")]
_GENERALIZED = {
    "CMT": [86.9, 8.4, 15.3, 60.1, 4.7, 8.7, 28.0, 8.7, 13.3],
    "DeViSE": [68.7, 13.4, 22.4, 53.0, 23.8, 32.8, 27.4, 16.9, 20.9],
    "SSE": [80.5, 7.0, 12.9, 46.9, 8.5, 14.4, 36.4, 2.1, 4.0],
    "SJE": [74.6, 11.3, 19.6, 59.2, 23.5, 33.6, 30.5, 14.7, 19.8],
    "LATEM": [71.7, 7.3, 13.3, 57.3, 15.2, 24.0, 28.8, 14.7, 19.5],
    "ALE": [76.1, 16.8, 27.5, 62.8, 23.7, 34.4, 33.1, 21.8, 26.3],
    "ESZSL": [75.6, 6.6, 12.1, 63.8, 12.6, 21.0, 27.9, 11.0, 15.8],
    "SynC": [87.3, 8.9, 16.2, 70.9, 11.5, 19.8, 43.3, 7.9, 13.4],
    "SAE": [71.3, 31.5, 43.5, 36.1, 28.0, 31.5, 25.0, 15.8, 19.4],
    "DEM": [84.7, 32.8, 47.3, 57.9, 19.6, 29.2, 34.3, 20.5, 25.6],
    "SP-AEN": [90.9, 23.3, 37.1, 70.6, 34.7, 46.6, 38.6, 24.9, 30.3],
    "GAN+ALE": [57.2, 47.6, 52.0, 59.3, 40.2, 47.9, 31.1, 41.3, 35.5],
    "BPL": [66.8, 48.8, 56.4, 52.5, 47.3, 49.8, 27.9, 42.2, 33.6],
}
_ALTERNATIVES = {
    "without ambiguity handling": [62.9, 54.9, 57.8],
    "minimum entropy": [67.1, 59.0, 59.6],
    "BPL": [74.1, 61.9, 63.2],
}
_SHOTS = [("imnet", f"hit@{k}, K={K}") for k in (1, 5) for K in (1, 2, 3, 4, 5)]
_SYNTHESIS = {
    "BPL (SFSP1)": [22.8, 28.8, 33.8, 36.8, 39.2, 43.1, 51.4, 57.4, 60.9, 63.2],
    "BPL (SFSP2)": [22.7, 28.8, 33.7, 36.7, 39.2, 43.0, 51.3, 57.3, 60.8, 63.0],
}
_MINUTES = {"BPL (SFSP1)": [1.2], "BPL (SFSP2)": [2.3], "LSL": [23.0], "PPA": [1300.0]}
# Model -> backbone, then value and half-width for one shot and for five.
_MINI = {
    "NN": ("simple CNN", 41.08, 0.70, 51.04, 0.65),
    "Matching Net": ("simple CNN", 43.56, 0.84, 55.31, 0.73),
    "Meta-Learn LSTM": ("simple CNN", 43.44, 0.77, 60.60, 0.71),
    "MAML": ("simple CNN", 48.70, 1.84, 63.11, 0.92),
    "Prototypical Net": ("simple CNN", 49.42, 0.78, 68.20, 0.66),
    "mAP-SSVM": ("simple CNN", 50.32, 0.80, 63.94, 0.72),
    "Relation Net": ("simple CNN", 50.44, 0.82, 65.32, 0.70),
    "SNAIL": ("ResNet20", 55.71, 0.99, 68.88, 0.92),
    "PPA (simple CNN)": ("simple CNN", 54.53, 0.40, 67.87, 0.20),
    "PPA": ("WRN", 59.60, 0.41, 73.74, 0.19),
    "BPL (simple CNN)": ("simple CNN", 54.20, 0.58, 65.28, 0.59),
    "BPL (SFSP1)": ("WRN", 58.53, 0.82, 75.62, 0.61),
}
# The half on features of the simple CNN again, where models have the names of the other half.
_SIMPLE = "simple CNN"
_CNN_NAMES = {"BPL (simple CNN)": "BPL (SFSP1)", "PPA (simple CNN)": "PPA"}

PRINTED: tuple[Printed, ...] = (
    *_rows("pzsl", _ZSL, _PURE),
    *_rows("gsrl", _GENERAL, _GENERALIZED),
    *_rows("gradopt", _ZSL[:3], _ALTERNATIVES),
    *_rows("datagen", _SHOTS, _SYNTHESIS, _RESNET50),
    *_rows("fsltime", [("imnet", "minutes")], _MINUTES, _RESNET50),
    *(
        Printed("metafsl", "mini-imagenet", model, f"{K}-shot", value, spread, backbone)
        for model, (backbone, *figures) in _MINI.items()
        for K, value, spread in ((1, *figures[:2]), (5, *figures[2:]))
    ),
    *(
        Printed(
            "metafsl",
            "mini-imagenet-cnn",
            _CNN_NAMES.get(model, model),
            f"{K}-shot",
            value,
            spread,
            backbone,
        )
        for model, (backbone, *figures) in _MINI.items()
        for K, value, spread in ((1, *figures[:2]), (5, *figures[2:]))
        if backbone == _SIMPLE
    ),
)


def find_printed(source: str, data: str, metric: str) -> dict[str, Printed]:
    """Return the figures of one table, data set and metric, by model."""
    return {
        figure.model: figure
        for figure in PRINTED
        if (figure.source, figure.data, figure.metric) == (source, data, metric)
    }


def contradiction(data: str, model: str) -> str:
    """Return how a printed harmonic mean contradicts its two accuracies; "" if it does not.

    Rounding explains a difference if two accuracies that round to the printed ones have a harmonic
    mean that rounds to the printed one.
    """
    found = [find_printed("gsrl", data, metric).get(model) for metric in ("acc_s", "acc_u", "hm")]
    if None in found:
        return ""
    seen, unseen, mean = (figure.value for figure in found if figure is not None)
    low, high = (harmonic_mean(seen + end, unseen + end) for end in (-_ROUNDING, _ROUNDING))
    if low - _ROUNDING <= mean <= high + _ROUNDING:
        return ""
    own = harmonic_mean(seen, unseen)
    return f"the paper's HM of {mean} contradicts its acc_s and acc_u, whose HM is {own:.1f}"
