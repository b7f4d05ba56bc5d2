"""A small data set with validation classes, for tests of the bench."""

import numpy as np

from zonkey.files.dataset import Dataset, Split
from zonkey_lab.paper.bench import runner
from zonkey_lab.paper.bench.sources import DataSource, validation_view

N_CLASSES, N_SAMPLES = 12, 9


def small_dataset(seed=0, noise=0.4):
    """Return 12 classes of 9 samples: 8 seen (2 of them to validate on), 4 unseen."""
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(N_CLASSES, 5))
    W = rng.normal(size=(5, 10))
    labels = np.repeat([f"c{j:02d}" for j in range(N_CLASSES)], N_SAMPLES)
    codes = np.repeat(np.arange(N_CLASSES), N_SAMPLES)
    X = Y[codes] @ W + noise * rng.normal(size=(len(codes), 10))
    place = np.tile(np.arange(N_SAMPLES), N_CLASSES)
    split = Split(
        train=np.flatnonzero((codes < 8) & (place < 7)),
        test_seen=np.flatnonzero((codes < 8) & (place >= 7)),
        test_unseen=np.flatnonzero(codes >= 8),
        val_classes=["c02", "c03", "c04", "c05"],
        name="small",
    )
    prototypes = {f"c{j:02d}": Y[j] for j in range(N_CLASSES)}
    return Dataset("small", X, labels, prototypes, split, about={"features": "made up"})


def small_source(seed=0):
    """Return it as a source of the bench."""

    def load():
        return small_dataset(seed)

    return DataSource("small", load, load, lambda: validation_view(load()))


def use_source(patch, source=None):
    """Let the runner find one data set only, a small one by default."""
    patch.setattr(runner, "find_source", lambda *_: source or small_source())
    for cached in (runner._load_data, runner._load_validation):
        cached.cache_clear()
