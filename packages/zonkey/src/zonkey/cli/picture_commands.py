"""`zonkey embed`, `classify` and `encoders`: pictures and texts to vectors, pictures to classes."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..optional import format_install
from .errors import one_line_errors, require_file
from .fit_command import NOTHING
from .model_commands import require_output
from .options import ANSWERS, JSON, NO_CACHE, ON_ERROR, PROBA, SUMMARY_JSON, TOP, OnError

if TYPE_CHECKING:
    from ..encoders import ClassTexts, Pictures, TextEncoder
    from ..encoders.stream import PictureStream
    from ..files.streams import Block
    from .answers import Columns

_PICTURE_ENDINGS = (".npz", ".csv", ".tsv", ".parquet", ".jsonl", ".npy")
_TEXT_ENDINGS = (".csv", ".tsv", ".parquet", ".npz")
_MOST_KEPT = 1 << 16  # pictures whose features are held in memory for --adapt
_MOST_SHOWN = 20  # classes whose number of pictures is printed
_PICTURES = "a folder, a zip or tar archive, a csv with a column of paths, or one picture"


def embed(
    source: Annotated[
        str,
        typer.Argument(help=f"Pictures: {_PICTURES}. Or a file of classes.", metavar="SOURCE"),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="File to write: npz, csv, tsv, parquet, jsonl or npy; of classes npz, csv, tsv or "
            "parquet.",
        ),
    ],
    encoder: Annotated[
        str | None,
        typer.Option(help="Encoder; see `zonkey encoders`.", show_default=False),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of SOURCE that describes the classes; by default all columns of text. "
            "Repeat it for several.",
            show_default=False,
        ),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(
            help='Sentence for texts, such as "a photo of a {}". Repeat it for several.',
            show_default=False,
        ),
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Column of the labels in a table.", show_default=False)
    ] = None,
    on_error: Annotated[OnError, ON_ERROR] = OnError.stop,
    no_cache: Annotated[bool, NO_CACHE] = False,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:1, or auto: CUDA if available.")
    ] = "auto",
    batch_size: Annotated[
        int, typer.Option(min=1, help="Number of pictures or texts to encode at once.")
    ] = 32,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Turn pictures into features, or texts of classes into prototypes.

    `zonkey fit` and `zonkey predict` read the files. Those of pictures hold the features, the name
    of each file, labels and other columns of SOURCE; in npy there are features only.
    """
    started = time.perf_counter()
    with one_line_errors(NOTHING):
        from ..encoders.collection import is_pictures
        from .encoding import name_encoder

        are_pictures = not text and is_pictures(source)
        _require_ending(output, _PICTURE_ENDINGS if are_pictures else _TEXT_ENDINGS)
        require_file("--output", output, *_files_of(source))
        options = {"device": device, "batch_size": batch_size}
        if encoder is not None:
            options["model"] = encoder
        if are_pictures:
            if template:
                raise ValueError(f"--template is for texts; {source} holds pictures. Leave it out.")
            from ..encoders import ImageEncoder
            from ..encoders.stream import PictureStream

            images = ImageEncoder(**options, cache=not no_cache)
            with name_encoder("--encoder", given=True):
                images.spec_  # noqa: B018 - loads it
            stream = PictureStream(
                source, images, label_column=label_column, on_error=on_error.value
            )
            record = _embed_pictures(stream, output)
        else:
            from ..encoders import TextEncoder, class_texts

            texts = class_texts(Path(source), text_columns=text, label_column=label_column)
            encode = TextEncoder(**options, templates=template)
            with name_encoder("--encoder", given=True):
                record = _embed_texts(texts, encode, output)
        record["seconds"] = round(time.perf_counter() - started, 2)
    if as_json:
        typer.echo(json.dumps(record))
        return
    what = "pictures" if are_pictures else "classes"
    typer.echo(f"{record['rows']} {what} in {output}: {record['encoder']['dimension']} dimensions")
    typer.echo(f"Encoder: {record['encoder']['name']} ({record['seconds']:.1f} s)")
    if record.get("left_out"):
        typer.echo(
            f"Left out: {', '.join(record['left_out'])}. Numbers beside features would be read as "
            "features. Write npz, parquet or jsonl to keep them.",
            err=True,
        )


def _files_of(*sources: str | None) -> list[Path]:
    """Return the files that are read, which must not be written to; names of classes are none."""
    return [Path(s) for s in sources if s and os.path.exists(s)]  # noqa: PTH110


def _require_ending(output: Path, endings: tuple[str, ...]) -> None:
    if output.suffix.lower() not in endings:
        raise ValueError(
            f"--output must end in {' or '.join(endings)}; got {output.name}. Choose one of these "
            "formats."
        )


def _embed_pictures(stream: PictureStream, output: Path) -> dict[str, Any]:
    """Write features of pictures beside their columns, and return what was written."""
    from .answers import open_answers, require_free, vector_columns
    from .loading import watch_blocks

    ending, spec = output.suffix.lower(), stream.encoder.spec_
    left_out = _number_columns(stream.pictures) if ending in (".csv", ".tsv") else []
    n_rows, columns = 0, []
    with open_answers(str(output), "") as write:
        for block in watch_blocks(stream, "Encoding"):
            added = vector_columns(block.X, ending, "features", "f")
            carried = {name: c for name, c in block.carried.items() if name not in left_out}
            if ending == ".npz":
                if "label" in carried:  # other columns may have names that readers prefer to it
                    added["labels"] = carried.pop("label")
                added["encoder"] = _as_array(spec)
            require_free(carried, added, stream.pictures.source)
            write({**carried, **added})
            n_rows, columns = n_rows + len(block.X), [*carried]
    return {
        "output": str(output),
        "rows": n_rows,
        "columns": [] if ending == ".npy" else columns,
        "left_out": left_out,
        "skipped": [str(error) for error in stream.skipped],
        "encoder": spec,
    }


def _number_columns(pictures: Pictures) -> list[str]:
    """Return columns of numbers, which readers of a table would take for features."""
    from ..files.tables import is_no_feature, is_text_column

    columns = pictures.columns.items()
    return [name for name, c in columns if not (is_no_feature(name) or is_text_column(c))]


def _as_array(spec: dict[str, Any]) -> Any:
    import numpy as np

    return np.array(json.dumps(spec))


def _embed_texts(texts: ClassTexts, encoder: Any, output: Path) -> dict[str, Any]:
    """Write prototypes of classes, and return what was written."""
    from .answers import open_answers, vector_columns
    from .loading import show_work

    ending = output.suffix.lower()
    with show_work("Encoding"):
        prototypes, spec = encoder.prototypes(texts), encoder.spec_
    is_npz = ending == ".npz"
    columns: Columns = {"labels" if is_npz else "label": prototypes.labels}
    columns |= vector_columns(prototypes.matrix, ending, "prototypes", "d")
    if is_npz:
        columns["encoder"] = _as_array(spec)
    with open_answers(str(output), "") as write:
        write(columns)
    return {"output": str(output), "rows": len(prototypes), "encoder": spec}


def classify(
    source: Annotated[str, typer.Argument(help=f"Pictures: {_PICTURES}.", metavar="SOURCE")],
    classes: Annotated[
        str | None,
        typer.Option(
            help='Classes to choose from: names as in "cat, dog, truck", or a file of names and '
            "descriptions. By default those of --shots, else the 1,000 classes of ImageNet.",
            show_default=False,
        ),
    ] = None,
    shots: Annotated[
        str | None,
        typer.Option(
            help="Labeled pictures to learn from, in one folder per class. New classes join.",
            show_default=False,
        ),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(
            help="Sentence around each name or text; repeat it for the mean of several. By default "
            '"{}" and "a photo of a {}".',
            show_default=False,
        ),
    ] = None,
    adapt: Annotated[
        bool,
        typer.Option(
            "--adapt",
            help="Learn from the pictures of SOURCE themselves, which need no labels. Of more than "
            f"{_MOST_KEPT:,}, an even sample is used.",
        ),
    ] = False,
    output: Annotated[str, ANSWERS] = "-",
    top: Annotated[int, TOP] = 1,
    proba: Annotated[bool, PROBA] = False,
    save: Annotated[
        Path | None,
        typer.Option(help="Model file to write, for `zonkey predict`.", show_default=False),
    ] = None,
    on_error: Annotated[OnError, ON_ERROR] = OnError.stop,
    no_cache: Annotated[bool, NO_CACHE] = False,
    as_json: Annotated[bool, SUMMARY_JSON] = False,
) -> None:
    """Write the class of every picture, given the names of the classes.

    A pretrained model that knows the classes of ImageNet compares the names with theirs. No labeled
    picture is needed; --shots and --adapt make it better.
    """
    started = time.perf_counter()
    with one_line_errors(NOTHING):
        to = "jsonl" if as_json else "csv"
        inputs = _files_of(source, shots, classes)
        require_output(output, to, *inputs)
        if save is not None:
            require_file("--save", save, *inputs)
        from ..encoders.class_texts import fold_name
        from ..encoders.stream import PictureStream
        from ..presets import pretrained_encoders
        from .answers import answer_blocks, answer_names, open_answers
        from .loading import watch_blocks

        encoder, text_encoder = pretrained_encoders()
        encoder.set_params(cache=not no_cache)
        if template:
            text_encoder.set_params(templates=template)
        stream = PictureStream(source, encoder, on_error=on_error.value)
        labeled = None
        if shots is not None:
            labeled = PictureStream(
                _select_labeled(shots), encoder, with_labels=True, on_error=on_error.value
            )
        model = _pretrained_model(classes, labeled, top, text_encoder)
        blocks = watch_blocks(stream, "Classifying")
        if adapt:
            model, blocks = _adapt_model(model, stream)
        names = answer_names(top, with_top=top > 1, with_proba=proba)
        tally = _Tally({fold_name(label): label for label in model.classes_.tolist()})
        with open_answers(output, to) as write:
            for answers in answer_blocks(blocks, model, names, top, source):
                write(answers)
                tally.add(answers)
        if save is not None:
            facts = {"encoder": encoder.spec_, "text_encoder": text_encoder.spec_}
            facts |= {"shots": shots} if shots else {}
            facts |= {"unlabeled": source} if adapt else {}
            model.save(save, training=facts)
        skipped = [str(e) for s in (labeled, stream) if s is not None for e in s.skipped]
    seconds = round(time.perf_counter() - started, 2)
    if as_json and output != "-":
        record = {"output": output, **tally.record(), "skipped": skipped, "seconds": seconds}
        typer.echo(json.dumps({**record, "model": None if save is None else str(save)}))
        return
    tally.tell_agreement()
    if output != "-":
        tally.print_counts()
        typer.echo(f"{tally.n_rows} rows in {output} ({seconds:.1f} s)")
    if save is not None:
        typer.echo(f"Model: {save} ({save.stat().st_size:,} bytes)", err=output == "-")


def _pretrained_model(
    classes: str | None, shots: PictureStream | None, top: int, encoder: TextEncoder
) -> Any:
    """Return a model that chooses from the classes, which must be as many as asked for."""
    from ..presets import pretrained
    from .loading import show_work

    texts = _texts_of(classes, shots)
    with show_work("Loading the pretrained model"):
        known = None if texts is None else encoder.prototypes(texts)
        model: Any = pretrained(classes=known)
    n = len(model.classes_)
    if top > n:
        raise ValueError(f"--top must be at most the {n} classes; got {top}. Ask for fewer.")
    return model if texts is None or shots is None else _learn_shots(model, shots, texts)


def _texts_of(classes: str | None, shots: PictureStream | None) -> ClassTexts | None:
    """Return the texts of all classes, of which there must be two; None if none are named."""
    import numpy as np

    from ..encoders.class_texts import class_texts, fold_name

    if classes is None and shots is None:
        return None
    known: dict[str, list[str]] = {}
    if classes is not None:
        found = class_texts(classes)
        known = dict(zip(found.labels.tolist(), found.texts, strict=True))
    if shots is not None and shots.pictures.labels is not None:
        named = {fold_name(label) for label in known}
        labels = np.unique(shots.pictures.labels).tolist()
        new = [label for label in labels if fold_name(label) not in named]
        if new:
            found = class_texts(new)
            known |= dict(zip(found.labels.tolist(), found.texts, strict=True))
    if len(known) < 2:
        raise ValueError(
            f"--classes must name at least two classes; got {', '.join(known)}. Add what else the "
            "pictures may show."
        )
    return class_texts(known)


def _select_labeled(shots: str) -> Pictures:
    """Return the pictures that have a label and are not marked `test`, if any has a label."""
    import numpy as np

    from ..encoders import Pictures

    pictures = Pictures.of(shots)
    if pictures.labels is None:
        return pictures
    used = pictures.labels != ""
    if pictures.split is not None:
        used &= pictures.split != "test"
    if not used.any():
        raise ValueError(
            f"--shots must hold labeled pictures that are not marked `test`; {shots} has none. "
            "Add some."
        )
    return pictures.subset(np.flatnonzero(used))


def _learn_shots(model: Any, shots: PictureStream, texts: ClassTexts) -> Any:
    """Return a model after learning from labeled pictures."""
    import numpy as np

    from ..encoders.class_texts import fold_name
    from .loading import read_rows

    X, y, _ = read_rows(shots, "Encoding labeled pictures", labeled=True)
    assert y is not None
    spelled = {fold_name(label): label for label in texts.labels.tolist()}
    return model.partial_fit(X, np.array([spelled[fold_name(label)] for label in y.tolist()]))


def _adapt_model(model: Any, stream: PictureStream) -> tuple[Any, Iterator[Block]]:
    """Return a model after learning from pictures without labels, and their blocks again."""
    import numpy as np

    from .loading import show_work, watch_blocks

    step = -(-stream.total // _MOST_KEPT)
    n, pile, blocks = 0, [], []
    for block in watch_blocks(stream, "Encoding"):
        pile.append(block.X[-n % step :: step])
        n += len(block.X)
        if step == 1:
            blocks.append(block)
    with show_work("Learning from unlabeled pictures"):
        model = model.adapt(np.concatenate(pile))
    return model, iter(blocks) if step == 1 else watch_blocks(stream, "Classifying")


@dataclass
class _Tally:
    """Counts predictions per class, and how often they agree with labels of known classes."""

    spelled: dict[str, str]  # class by comparable name
    counts: Counter[str] = field(default_factory=Counter)
    n_labeled: int = 0
    n_agreeing: int = 0

    @property
    def n_rows(self) -> int:
        return self.counts.total()

    def add(self, answers: Columns) -> None:
        from ..encoders.class_texts import fold_name

        predicted = answers["predicted"].tolist()
        self.counts.update(predicted)
        for label, answer in zip(answers.get("label", ()), predicted, strict=False):
            known = self.spelled.get(fold_name(label))
            if known is not None:
                self.n_labeled += 1
                self.n_agreeing += known == answer

    def record(self) -> dict[str, Any]:
        return {
            "rows": self.n_rows,
            "counts": dict(self.counts.most_common()),
            "labeled": self.n_labeled,
            "agreement": self.n_agreeing / self.n_labeled if self.n_labeled else None,
        }

    def tell_agreement(self) -> None:
        if self.n_labeled:
            share = f"{self.n_agreeing / self.n_labeled:.1%}".replace("%", " %")
            typer.echo(
                f"Labels of the pictures agree with {share} of {self.n_labeled} predictions.",
                err=True,
            )

    def print_counts(self) -> None:
        shown = self.counts.most_common(_MOST_SHOWN)
        width = max(len(label) for label, _ in shown)
        for label, n in shown:
            typer.echo(f"{label:<{width}}  {n:>6}")
        if len(self.counts) > len(shown):
            typer.echo(f"and {len(self.counts) - len(shown)} further classes")


def encoders(as_json: Annotated[bool, JSON] = False) -> None:
    """List the encoders of pictures and texts.

    Any other model is named by its backend: onnx:PATH, transformers:NAME_OR_PATH or
    sentence-transformers:NAME_OR_PATH.
    """
    from ..encoders.registry import list_encoders

    infos = list_encoders()
    if as_json:
        typer.echo(json.dumps([asdict(info) for info in infos]))
        return
    # Not a table that wraps: users copy the names.
    encodes = {"image": "pictures", "text": "texts", "joint": "both"}
    typer.echo(_line("name", "encodes", "dimension", "size", "license", "extra"))
    for info in infos:
        size = f"{info.megabytes:.0f} MB"
        kind = encodes[info.kind]
        typer.echo(_line(info.name, kind, info.dimension, size, info.license, info.extra))
    embedded = ", ".join(info.name for info in infos if info.embedded)
    typer.echo(f"Part of the package: {embedded}. Others need a download.")
    typer.echo("By path or name: onnx:..., transformers:..., sentence-transformers:...")
    typer.echo(f"Install an extra by its name:\n{format_install('zonkey', 'NAME')}")


def _line(name: str, kind: str, dimension: object, size: str, license: str, extra: str) -> str:
    return f"{name:<19}{kind:<9}{dimension:>9}  {size:>6}  {license:<12}{extra}"
