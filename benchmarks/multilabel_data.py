"""Samples with several labels each: package descriptions with their debtags, and a generated set.

Debtags come from the lists of packages of a Debian system (`apt-get update`): no file of them is
part of this repository. Features are found again in zonkey's cache of features.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import dataclass

import numpy as np

from data_packages import Missing
from everywhere_data import encode_texts

_FEWEST_TAGS, _FEWEST_POSITIVES = 3, 100
_TRAIN, _TEST = 6000, 3000


@dataclass(frozen=True, eq=False)
class MarkedProblem:
    """Training and test samples with an indicator matrix each, and a vector per label."""

    name: str
    X: np.ndarray
    Y: np.ndarray
    X_test: np.ndarray
    Y_test: np.ndarray
    P: np.ndarray
    joint: bool


def list_packages() -> dict[str, tuple[str, list[str]]]:
    """Return the short description and the tags of each package that has both."""
    command = ["apt-cache", "dumpavail"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise Missing("Debtags need a Debian system with lists: apt-get update") from error
    packages = {}
    for block in found.split("\n\n"):
        name = re.search(r"^Package: (.*)$", block, re.MULTILINE)
        tags = re.search(r"^Tag: (.*(?:\n .*)*)", block, re.MULTILINE)
        text = re.search(r"^Description(?:-en)?: (.*)", block, re.MULTILINE)
        if name and tags and text:
            listed = tags.group(1).replace("\n", " ").split(",")
            packages[name.group(1)] = text.group(1), [tag.strip() for tag in listed]
    if not packages:
        raise Missing("The lists of packages have no debtags: apt-get update")
    return packages


def name_tag(tag: str) -> str:
    """Return the words of a tag: "works-with::image:raster" is "works with image raster"."""
    return re.sub(r"[:-]+", " ", tag).strip()


def load_debtags(seed: int = 0) -> MarkedProblem:
    """Return descriptions of packages with at least three tags; labels are the frequent tags."""
    packages = list_packages()
    names = sorted(n for n, (_, tags) in packages.items() if len(tags) >= _FEWEST_TAGS)
    rng = np.random.default_rng(seed)
    names = [names[i] for i in rng.permutation(len(names))[: _TRAIN + _TEST]]
    counts = Counter(tag for name in names for tag in packages[name][1])
    labels = sorted(t for t, n in counts.items() if n >= _FEWEST_POSITIVES and "TODO" not in t)
    place = {tag: j for j, tag in enumerate(labels)}
    Y = np.zeros((len(names), len(labels)), int)
    for i, name in enumerate(names):
        Y[i, [place[tag] for tag in packages[name][1] if tag in place]] = 1
    X = encode_texts([f"{name}: {packages[name][0]}" for name in names])
    P = encode_texts([name_tag(tag) for tag in labels])
    half = _TRAIN
    return MarkedProblem("debtags", X[:half], Y[:half], X[half:], Y[half:], P, joint=True)


def load_separate(seed: int = 0) -> MarkedProblem:
    """Return the same packages with prototypes in a space of their own: turned and shortened."""
    problem = load_debtags(seed)
    turned = np.random.default_rng(1).normal(size=(problem.P.shape[1], 128)) / 128**0.5
    parts = problem.X, problem.Y, problem.X_test, problem.Y_test
    return MarkedProblem("debtags, separate", *parts, problem.P @ turned, joint=False)


def generate_marked(seed: int = 0, n_labels: int = 60, d: int = 128) -> MarkedProblem:
    """Return samples that are sums of the directions of their labels, and noise.

    Directions follow from prototypes by a random map, up to an error; labels are of different
    frequency, and some occur together.
    """
    rng = np.random.default_rng(seed)
    P = rng.normal(size=(n_labels, 40))
    directions = P @ rng.normal(size=(40, d)) / 40**0.5 + 0.7 * rng.normal(size=(n_labels, d))
    n = _TRAIN + _TEST
    topics = rng.normal(size=(n, 8)) @ rng.normal(size=(8, n_labels)) / 8**0.5
    rates = rng.uniform(-3.4, -1.2, size=n_labels)
    Y = (topics + rng.normal(size=(n, n_labels)) + 1.4 * rates > 0).astype(int)
    spread = np.linspace(0.5, 2.5, d)
    X = Y @ directions * 0.6 + 2.0 * rng.normal(size=(n, d)) * spread
    half = _TRAIN
    return MarkedProblem("generated", X[:half], Y[:half], X[half:], Y[half:], P, joint=False)
