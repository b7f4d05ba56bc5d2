"""Rebuild the embedded base of `presets.pretrained`: what 1,000 classes of ImageNet look like.

    pip install --group encoders     # see pyproject.toml
    python tools/build_base.py

The rows of the last layer of EfficientNet-Lite0 point to where pictures of a class are. Names,
glosses and the hierarchy of the classes are those of WordNet 3.0; an inner node of the hierarchy,
such as "bird", points to the mean of its classes. Texts are encoded by the embedded encoder. Rows
and texts are stored as int8 with a scale per row. With `--check` the script compares with the
existing file instead. Both ways it prints how often a held-out class is recognized by its text.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np

DATA = Path(__file__).parents[1] / "packages" / "zonkey" / "src" / "zonkey" / "presets" / "data"
# The order of the classes, and the Debian package that holds WordNet 3.0.
TIMM, WORDNET = "timm==1.0.30", "wordnet-base"
N_FOLDS = 5
HASHES = {
    "timm": "70002b0ff5de60a3a17a82dbfcff291931f96225ddf941ad2e182fc39e183d15",
    "wordnet": "fea17d2f9656611334eac790e5d69e47645fa180c4aa481fb4cd9b3520754ca2",
}


def class_ids(cache: Path) -> list[str]:
    """Return the WordNet ids of the classes, in the order of the last layer."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", TIMM]
    path = next(iter(cache.glob("timm-*.whl")), None)
    if path is None:
        subprocess.run([*command, "--dest", str(cache)], check=True)
        path = next(iter(cache.glob("timm-*.whl")))
    with zipfile.ZipFile(path) as wheel:
        text = wheel.read("timm/data/_info/imagenet_synsets.txt")
    require(text, "timm")
    return text.decode().split()


def nouns(cache: Path) -> dict[str, tuple[list[str], str, list[str]]]:
    """Return words, gloss and hypernyms of every noun of WordNet, by id."""
    path = next(iter(cache.glob("wordnet-base_*.deb")), None)
    if path is None:
        subprocess.run(["apt-get", "download", WORDNET], cwd=cache, check=True)
        path = next(iter(cache.glob("wordnet-base_*.deb")))
    raw = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], check=True, capture_output=True)
    with tarfile.open(fileobj=BytesIO(raw.stdout)) as archive:
        member = archive.extractfile("./usr/share/wordnet/data.noun")
        assert member is not None
        text = member.read()
    require(text, "wordnet")
    found = {}
    for line in text.decode().splitlines():
        if line.startswith("  "):
            continue
        data, gloss = line.split("|", 1)
        cells = data.split()
        n = int(cells[3], 16)
        words = [cells[4 + 2 * i].replace("_", " ") for i in range(n)]
        start = 4 + 2 * n
        pointers = [cells[start + 1 + 4 * i : start + 3 + 4 * i] for i in range(int(cells[start]))]
        above = [f"n{place}" for mark, place in pointers if mark in ("@", "@i")]
        found[f"n{cells[0]}"] = (words, gloss.split(";")[0].strip(), above)
    return found


def require(content: bytes, name: str) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != HASHES[name]:
        raise SystemExit(f"The file of {name} has the hash {digest}, not {HASHES[name]}.")


def inner_nodes(ids: list[str], words: dict) -> dict[str, list[int]]:
    """Return the classes below every node above some class."""
    below: dict[str, set[int]] = {}
    for i, leaf in enumerate(ids):
        rest = list(words[leaf][2])
        while rest:
            node = rest.pop()
            if i not in below.setdefault(node, set()):
                below[node].add(i)
                rest.extend(words[node][2])
    return {node: sorted(below[node]) for node in sorted(below)}


def unique_names(keys: list[str], words: dict) -> list[str]:
    """Return one name per node; where two would be equal, what they are follows in brackets."""
    names = [words[key][0][0] for key in keys]
    for name in (lambda key: words[words[key][2][0]][0][0], lambda key: key):
        lower = [text.casefold() for text in names]
        names = [
            f"{words[key][0][0]} ({name(key)})" if lower.count(text) > 1 and words[key][2] else own
            for key, text, own in zip(keys, lower, names, strict=True)
        ]
    assert len({text.casefold() for text in names}) == len(names)
    return names


def text_vectors(keys: list[str], words: dict) -> np.ndarray:
    """Return the mean vector of synonyms, of a caption and of the gloss of each node."""
    from zonkey.encoders import TextEncoder

    encoder = TextEncoder()
    kinds = (
        [", ".join(words[key][0]) for key in keys],
        [f"a photo of a {words[key][0][0]}" for key in keys],
        [f"{words[key][0][0]}: {words[key][1]}" for key in keys],
    )
    mean = np.sum([encoder.transform(texts) for texts in kinds], axis=0, dtype=np.float64)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


def bytes_of(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows as int8, and a scale for each."""
    scale = np.abs(rows).max(axis=1) / 127
    return np.round(rows / scale[:, None]).astype(np.int8), scale.astype(np.float32)


def build(cache: Path) -> dict[str, np.ndarray]:
    """Return the arrays of the base."""
    from build_image_encoder import original

    cache.mkdir(parents=True, exist_ok=True)
    ids, words = class_ids(cache), nouns(cache)
    inner = inner_nodes(ids, words)
    W = original()._fc.weight.detach().double().numpy()
    rows, row_scales = bytes_of(W / np.linalg.norm(W, axis=1, keepdims=True))
    vectors, vector_scales = bytes_of(text_vectors([*ids, *inner], words))
    return {
        "rows": rows,
        "row_scales": row_scales,
        "vectors": vectors,
        "vector_scales": vector_scales,
        "members": np.concatenate([*inner.values()]).astype(np.int16),
        "bounds": np.cumsum([0, *map(len, inner.values())]).astype(np.int32),
        "names": np.frombuffer("\n".join(unique_names([*ids, *inner], words)).encode(), np.uint8),
    }


def held_out_accuracy(path: Path) -> Iterator[tuple[float, float, float]]:
    """Yield gamma, ridge and how often the row of a held-out class is nearest to its prediction."""
    from zonkey import Prototypes
    from zonkey.presets.pretraining import Base, fit_on_base

    base = Base.from_file(path)
    folds = np.array_split(np.random.default_rng(0).permutation(base.n_leaves), N_FOLDS)
    for gamma, ridge in ((1.0, 0.3), (2.0, 0.3), (4.0, 0.1), (4.0, 0.3), (4.0, 1.0), (8.0, 0.3)):
        hits = []
        for fold in folds:
            shown = Prototypes(base.names[fold], base.vectors[fold])
            model = fit_on_base(base.without(fold), shown, gamma=gamma, ridge=ridge)
            best = model.classes_[(base.rows[fold] @ model.centers_.T).argmax(axis=1)]
            hits.append(np.mean(best == base.names[fold]))
        yield gamma, ridge, float(np.mean(hits))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path(".cache/base"))
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    arguments = parser.parse_args()
    from zonkey.persistence.container import write_arrays
    from zonkey.presets.pretraining import KIND

    arrays = build(arguments.cache)
    path = DATA / "efficientnet-lite0.base"
    DATA.mkdir(exist_ok=True)
    target = arguments.cache / path.name if arguments.check else path
    write_arrays(target, KIND, {"encoder": "efficientnet-lite0", "texts": "minilm-l6"}, arrays)
    content = target.read_bytes()
    print(f"{path.name}: {len(content) / 1e6:.2f} MB, {hashlib.sha256(content).hexdigest()}")
    if arguments.check and content != path.read_bytes():
        raise SystemExit("The embedded file differs from a rebuild. Run without --check.")
    for gamma, ridge, accuracy in held_out_accuracy(target):
        print(f"gamma {gamma}, ridge {ridge}: {accuracy:.3f} of held-out classes are recognized")


if __name__ == "__main__":
    main()
