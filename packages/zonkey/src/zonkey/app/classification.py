"""Classify pictures or texts by the names of classes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders import ClassTexts
from ..encoders.class_texts import class_texts, fold_name
from ..errors import Problem
from ..files.streams import Block
from ..metrics import PrecisionThreshold
from ..presets import imagenet_tree
from .acceptance import Acceptance, refuse_with_bins
from .inputs import check_classes, check_sources, find_spellings
from .naming import NamingTask
from .prediction import OUTPUT_ENDINGS, Answering
from .progress import Progress, Step, ignore, watch_blocks
from .sources import EncodedStream, Encoders
from .targets import check_ending, check_target
from .writing import Columns, Output, open_output

_MOST_KEPT = 1 << 16  # samples whose features are held in memory to adapt


@dataclass
class Classification:
    """What `classify` has written: predictions by class, and how often they agree with labels.

    Pictures in folders are labeled by the names of these, texts by a column.

    Parameters
    ----------
    counts : Counter of {str: int}
        Number of samples of each predicted class.
    labeled : int
        Number of samples with a label that is one of the classes.
    agreeing : int
        Those whose label is the prediction.
    joined : dict of {str: str}
        Labels of the shots that are classes in another spelling, and these classes.
    skipped : list of str
        What was wrong with the pictures that could not be read, and which texts are blank.
    answers : dict of {str: list} or None
        The columns, if no output was given.
    seconds : float
        Time it took.
    precision : PrecisionThreshold or None
        How the least probability of an answer was chosen.

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
    precision: PrecisionThreshold | None = None

    @property
    def rows(self) -> int:
        """Number of samples."""
        return self.counts.total()

    @property
    def agreement(self) -> float | None:
        """Share of the labeled samples whose label is the prediction, None if there are none."""
        return self.agreeing / self.labeled if self.labeled else None


def classify(
    source: str | Path,
    classes: str | Path | None = None,
    shots: str | Path | None = None,
    output: Output | None = None,
    *,
    encoder: str | None = None,
    text_encoder: str | None = None,
    text_column: str | None = None,
    label_column: str | None = None,
    templates: Sequence[str] | None = None,
    adapt: bool = False,
    top: int = 1,
    proba: bool = False,
    novelty: bool = False,
    reject_below: float | None = None,
    precision: float | None = None,
    held_out: str | Path | None = None,
    level: int | None = None,
    path: bool = False,
    bins: str | Path | None = None,
    save: str | Path | None = None,
    on_error: str = "raise",
    cache: bool = True,
    format: str = "csv",
    progress: Progress = ignore,
) -> Classification:
    """Classify pictures or texts by the names of classes, and write the answers.

    Parameters
    ----------
    source : str or Path
        Pictures or texts.
    classes : str or Path, default=None
        Names with commas between them, or a file of names and descriptions, whose column `parent`
        makes a tree. By default those of the shots, else, for pictures, the classes of ImageNet,
        with the tree of WordNet.
    shots : str or Path, default=None
        Labeled samples to learn from: pictures in one folder per class, or a table of texts.
    output : str, Path, binary file or None, default=None
        File to write; None returns the answers instead.
    encoder, text_encoder : str, default=None
        Encoders of the samples and of the names. Without shots they must be a pair with one space,
        such as CLIP, which has one name; texts and names may have one encoder. By default the
        pretrained model classifies pictures, and minilm-l6 encodes texts.
    text_column : str, default=None
        Column of the texts in a table; by default `text`, `texts` or `sentence`, else the only
        column of text that holds no labels.
    label_column : str, default=None
        Column of the labels in a table.
    templates : sequence of str, default=None
        Sentences around each name or description.
    adapt : bool, default=False
        Whether to learn from the samples of the source, which need no labels.
    top : int, default=1
        Number of best classes.
    proba : bool, default=False
        Whether probabilities of these classes are written too.
    novelty : bool, default=False
        Whether to write how unlike all classes each sample is.
    reject_below : float, default=None
        Probability in [0, 1] below which the answer is "unknown", or in a tree of classes the
        deepest node that reaches it.
    precision : float, default=None
        Instead of `reject_below`: wanted share of right answers among the accepted ones.
    held_out : str or Path, default=None
        Labeled samples that show the precision, as `shots` and none of them; by default those of
        the shots that were left out to choose parameters.
    level : int, default=None
        Level of the tree of classes to answer at; 1 is the top.
    path : bool, default=False
        Whether the path from the top of the tree to the answer is written too.
    bins : str or Path, default=None
        Table with the columns `class` and `bin`: the answer is the most probable bin.
    save : str or Path, default=None
        Model file to write.
    on_error : {"raise", "skip"}, default="raise"
        What happens to pictures that cannot be read, and to blank texts.
    cache : bool, default=True
        Whether features of pictures and texts are kept in the user's cache folder.
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
    check_sources(shots=shots, bins=bins)
    acceptance = Acceptance(reject_below, precision, held_out)
    refuse_with_bins(bins, precision=precision)  # shown for classes
    inputs = source, shots, classes, held_out
    if isinstance(output, str | Path):
        check_ending("output", Path(output), OUTPUT_ENDINGS, " formats")
        check_target("output", Path(output), *inputs)
    if save is not None:
        check_target("save", Path(save), *inputs)
    encoders = Encoders(
        encoder=encoder,
        text_encoder=text_encoder,
        templates=templates,
        on_error=on_error,
        cache=cache,
    )
    naming = NamingTask.open(source, shots, encoders, text_column, label_column, held_out)
    texts, joined = _texts_of(classes, naming.labeled)
    model = naming.make_model(texts, top, progress)
    if texts is None and (level is not None or path):
        model = model.with_tree(imagenet_tree())
    answering = Answering(top, proba, novelty, level, path, bins).check(model)
    blocks = watch_blocks(naming.stream, "Classifying", progress)
    if adapt:
        model, blocks = _adapt_model(model, naming, progress)
    model = acceptance.limit_named(model, naming.held_out, progress)
    if bins is not None:  # they answer with the model as it is now
        answering = replace(answering, bins=bins).check(model)
    found = Classification(joined=joined, answers={} if output is None else None)
    found.precision = model.precision_
    right = _right_answers(model, answering)
    with open_output(output, format, found.answers) as write:
        for answers in answering.answer_blocks(blocks, model, source):
            write(answers)
            _count(found, answers, answers.get(naming.label, ()), right)
    if save is not None:
        facts = dict(encoders.facts)
        facts |= {"shots": str(shots)} if shots else {}
        facts |= {"unlabeled": str(source)} if adapt else {}
        model.save(save, training=facts)
    streams = (naming.labeled, naming.stream)
    found.skipped = [str(error) for s in streams if s is not None for error in s.skipped]
    found.seconds = round(time.perf_counter() - started, 2)
    return found


def _count(
    found: Classification, answers: Columns, labels: Iterable[Any], right: dict[str, set[str]]
) -> None:
    """Count the predictions of a block, and how many agree with a label."""
    predicted = answers["predicted"].tolist()
    found.counts.update(predicted)
    for label, answer in zip(labels, predicted, strict=False):
        known = right.get(fold_name(label))
        if known is not None:
            found.labeled += 1
            found.agreeing += answer in known


def _right_answers(model: Any, answering: Answering) -> dict[str, set[str]]:
    """Return the answers that agree with each label, by its name without spelling.

    These are the class, the nodes above it, which are less deep answers, and its bins. Labels of
    classes in no bin have none.
    """
    right: dict[str, set[str]] = {}
    for label in model.classes_.tolist():
        agreeing = {label} if model.tree_ is None else {*model.tree_.path(label)}
        if answering.bins is not None:
            agreeing = {name for name, own in answering.bins.bins.items() if label in own}
            if not agreeing:
                continue
        for name in (label, *agreeing):
            right.setdefault(fold_name(name), {name}).update(agreeing if name == label else ())
    return right


def _texts_of(
    classes: str | Path | None, shots: EncodedStream | None
) -> tuple[ClassTexts | None, dict[str, str]]:
    """Return the texts of all classes, and labels of shots that are a class in another spelling.

    There must be two classes; None if none are named.
    """
    if classes is None and shots is None:
        return None, {}
    known: dict[str, list[str]] = {}
    parents = None
    if classes is not None:
        found = class_texts(classes)
        parents = found.parents
        known = dict(zip(found.labels.tolist(), found.texts, strict=True))
    joined: dict[str, str] = {}
    if shots is not None and shots.items.labels is not None:
        named = {fold_name(label): label for label in known}
        labels = np.unique(shots.items.labels).tolist()
        joined = find_spellings("shots", labels, [*known])
        new = [label for label in labels if fold_name(label) not in named]
        if new:
            found = class_texts(new)
            known |= dict(zip(found.labels.tolist(), found.texts, strict=True))
    if len(known) < 2:
        (name,) = known
        remedy = "Add what else there may be."
        rule = "must name at least two classes"
        raise Problem("`classes`", rule, f"got {name}", remedy, option="classes")
    return replace(class_texts(known), parents=parents), joined


def _adapt_model(model: Any, naming: NamingTask, progress: Progress) -> tuple[Any, Iterator[Block]]:
    """Return a model after learning from samples without labels, and their blocks again."""
    stream = naming.stream
    step = -(-stream.total // _MOST_KEPT)
    n, batch, blocks = 0, [], []
    for block in watch_blocks(stream, "Encoding", progress):
        batch.append(block.X[-n % step :: step])
        n += len(block.X)
        if step == 1:
            blocks.append(block)
    progress(Step("Learning from unlabeled samples"))
    model = naming.adapt_model(model, np.concatenate(batch))
    return model, iter(blocks) if step == 1 else watch_blocks(stream, "Classifying", progress)
