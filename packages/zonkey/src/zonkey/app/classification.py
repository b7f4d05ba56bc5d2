"""Classify pictures by the names of classes, with a pretrained model."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders import ClassTexts, Pictures, TextEncoder
from ..encoders.class_texts import class_texts, fold_name
from ..encoders.stream import PictureStream
from ..errors import Problem
from ..files.streams import Block
from ..presets import pretrained, pretrained_encoders
from .inputs import check_classes, check_sources, find_spellings
from .models import read_rows
from .prediction import OUTPUT_ENDINGS, answer_blocks, answer_names, require_top
from .progress import Progress, Step, ignore, watch_blocks
from .targets import check_ending, check_target
from .writing import Columns, Output, open_output

_MOST_KEPT = 1 << 16  # pictures whose features are held in memory to adapt


@dataclass
class Classification:
    """What `classify` has written: predictions by class, and how often they agree with labels.

    Pictures in folders are labeled by the names of these.

    Parameters
    ----------
    counts : Counter of {str: int}
        Number of pictures of each predicted class.
    labeled : int
        Number of pictures with a label that is one of the classes.
    agreeing : int
        Those whose label is the prediction.
    joined : dict of {str: str}
        Labels of the shots that are classes in another spelling, and these classes.
    skipped : list of str
        What was wrong with the pictures that could not be read.
    answers : dict of {str: list} or None
        The columns, if no output was given.
    seconds : float
        Time it took.

    See Also
    --------
    classify : Returns it.

    Examples
    --------
    >>> from collections import Counter
    >>> from zonkey.app import Classification
    >>> found = Classification(Counter(cat=3, dog=1), labeled=2, agreeing=1)
    >>> found.rows, found.agreement
    (4, 0.5)
    """

    counts: Counter[str] = field(default_factory=Counter)
    labeled: int = 0
    agreeing: int = 0
    joined: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    answers: dict[str, list[Any]] | None = None
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        """Number of pictures."""
        return self.counts.total()

    @property
    def agreement(self) -> float | None:
        """Share of the labeled pictures whose label is the prediction, None if there are none."""
        return self.agreeing / self.labeled if self.labeled else None


def classify(
    source: str | Path,
    classes: str | Path | None = None,
    shots: str | Path | None = None,
    output: Output | None = None,
    *,
    templates: Sequence[str] | None = None,
    adapt: bool = False,
    top: int = 1,
    proba: bool = False,
    save: str | Path | None = None,
    on_error: str = "raise",
    cache: bool = True,
    format: str = "csv",
    progress: Progress = ignore,
) -> Classification:
    """Classify pictures by the names of classes, and write the answers.

    Parameters
    ----------
    source : str or Path
        Pictures.
    classes : str or Path, default=None
        Names with commas between them, or a file of names and descriptions. By default those of
        the shots, else the classes of ImageNet.
    shots : str or Path, default=None
        Labeled pictures to learn from, in one folder per class.
    output : str, Path, binary file or None, default=None
        File to write; None returns the answers instead.
    templates : sequence of str, default=None
        Sentences around each name or text.
    adapt : bool, default=False
        Whether to learn from the pictures of the source, which need no labels.
    top : int, default=1
        Number of best classes.
    proba : bool, default=False
        Whether probabilities of these classes are written too.
    save : str or Path, default=None
        Model file to write.
    on_error : {"raise", "skip"}, default="raise"
        What happens to pictures that cannot be read.
    cache : bool, default=True
        Whether features of pictures are kept in the user's cache folder.
    format : str, default="csv"
        Format of an output that is an open file.
    progress : callable, default=ignore
        Called with each `Step`.

    Returns
    -------
    Classification
        What was written.
    """
    started = time.perf_counter()
    check_classes(source, classes, may_be_names=True)
    check_sources(shots=shots)
    inputs = source, shots, classes
    if isinstance(output, str | Path):
        check_ending("output", Path(output), OUTPUT_ENDINGS, " formats")
        check_target("output", Path(output), *inputs)
    if save is not None:
        check_target("save", Path(save), *inputs)
    encoder, text_encoder = pretrained_encoders()
    encoder.set_params(cache=cache)
    if templates:
        text_encoder.set_params(templates=list(templates))
    stream = PictureStream(source, encoder, on_error=on_error)
    labeled = None
    if shots is not None:
        labeled = PictureStream(
            _select_labeled(shots), encoder, with_labels=True, on_error=on_error
        )
    texts, joined = _texts_of(classes, labeled)
    model = _pretrained_model(texts, labeled, top, text_encoder, progress)
    blocks = watch_blocks(stream, "Classifying", progress)
    if adapt:
        model, blocks = _adapt_model(model, stream, progress)
    names = answer_names(top, with_top=top > 1, with_proba=proba)
    found = Classification(joined=joined, answers={} if output is None else None)
    spelled = {fold_name(label): label for label in model.classes_.tolist()}
    with open_output(output, format, found.answers) as write:
        for answers in answer_blocks(blocks, model, names, top, source):
            write(answers)
            _count(found, answers, spelled)
    if save is not None:
        facts = {"encoder": encoder.spec_, "text_encoder": text_encoder.spec_}
        facts |= {"shots": str(shots)} if shots else {}
        facts |= {"unlabeled": str(source)} if adapt else {}
        model.save(save, training=facts)
    found.skipped = [str(e) for s in (labeled, stream) if s is not None for e in s.skipped]
    found.seconds = round(time.perf_counter() - started, 2)
    return found


def _count(found: Classification, answers: Columns, spelled: dict[str, str]) -> None:
    """Count the predictions of a block, and how many agree with a label."""
    predicted = answers["predicted"].tolist()
    found.counts.update(predicted)
    for label, answer in zip(answers.get("label", ()), predicted, strict=False):
        known = spelled.get(fold_name(label))
        if known is not None:
            found.labeled += 1
            found.agreeing += known == answer


def _pretrained_model(
    texts: ClassTexts | None,
    shots: PictureStream | None,
    top: int,
    encoder: TextEncoder,
    progress: Progress,
) -> Any:
    """Return a model that chooses from the classes; refuse too few classes."""
    progress(Step("Loading the pretrained model"))
    known = None if texts is None else encoder.prototypes(texts)
    model: Any = pretrained(classes=known)
    require_top(top, len(model.classes_), "classes")
    return model if texts is None or shots is None else _learn_shots(model, shots, texts, progress)


def _texts_of(
    classes: str | Path | None, shots: PictureStream | None
) -> tuple[ClassTexts | None, dict[str, str]]:
    """Return the texts of all classes, and labels of shots that are a class in another spelling.

    There must be two classes; None if none are named.
    """
    if classes is None and shots is None:
        return None, {}
    known: dict[str, list[str]] = {}
    if classes is not None:
        found = class_texts(classes)
        known = dict(zip(found.labels.tolist(), found.texts, strict=True))
    joined: dict[str, str] = {}
    if shots is not None and shots.pictures.labels is not None:
        named = {fold_name(label): label for label in known}
        labels = np.unique(shots.pictures.labels).tolist()
        joined = find_spellings("shots", labels, [*known])
        new = [label for label in labels if fold_name(label) not in named]
        if new:
            found = class_texts(new)
            known |= dict(zip(found.labels.tolist(), found.texts, strict=True))
    if len(known) < 2:
        (name,) = known
        remedy = "Add what else the pictures may show."
        rule = "must name at least two classes"
        raise Problem("`classes`", rule, f"got {name}", remedy, option="classes")
    return class_texts(known), joined


def _select_labeled(shots: str | Path) -> Pictures:
    """Return the pictures that have a label and are not marked `test`, if any has a label."""
    pictures = Pictures.of(shots)
    if pictures.labels is None:
        return pictures
    used = pictures.labels != ""
    if pictures.split is not None:
        used &= pictures.split != "test"
    if not used.any():
        raise Problem(
            "`shots`",
            "must hold labeled pictures that are not marked `test`",
            f"{shots} has none",
            "Add some.",
            option="shots",
        )
    return pictures.subset(np.flatnonzero(used))


def _learn_shots(model: Any, shots: PictureStream, texts: ClassTexts, progress: Progress) -> Any:
    """Return a model after learning from labeled pictures."""
    X, y, *_ = read_rows(shots, "Encoding labeled pictures", progress, labeled=True)
    assert y is not None
    spelled = {fold_name(label): label for label in texts.labels.tolist()}
    return model.partial_fit(X, np.array([spelled[fold_name(label)] for label in y.tolist()]))


def _adapt_model(
    model: Any, stream: PictureStream, progress: Progress
) -> tuple[Any, Iterator[Block]]:
    """Return a model after learning from pictures without labels, and their blocks again."""
    step = -(-stream.total // _MOST_KEPT)
    n, batch, blocks = 0, [], []
    for block in watch_blocks(stream, "Encoding", progress):
        batch.append(block.X[-n % step :: step])
        n += len(block.X)
        if step == 1:
            blocks.append(block)
    progress(Step("Learning from unlabeled pictures"))
    model = model.adapt(np.concatenate(batch))
    return model, iter(blocks) if step == 1 else watch_blocks(stream, "Classifying", progress)
