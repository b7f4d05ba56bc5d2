"""Sources of samples and classes: pictures and texts are encoded, numbers are read as they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..encoders import ClassTexts, ImageEncoder, TextEncoder, class_texts
from ..encoders.class_texts import has_column, has_texts, speak_label
from ..encoders.collection import is_pictures
from ..encoders.registry import DEFAULT_IMAGE, DEFAULT_TEXT, share_space
from ..encoders.stream import PictureStream, TextStream
from ..encoders.text_encoder import NAME_TEMPLATES
from ..encoders.texts import is_texts
from ..errors import DataError, Problem, reword
from ..files.classes import require_prototypes
from ..files.readers import stored_arrays
from ..files.streams import STANDARD_INPUT, FeatureStream
from ..labels import format_value
from ..prototypes import Prototypes

EncodedStream = PictureStream | TextStream
Stream = FeatureStream | EncodedStream

# Entries of the training facts of a model file: encoder and column of the samples, encoder and
# columns of the classes
ENCODER, SAMPLE_COLUMN = "encoder", "text_column"
TEXT_ENCODER, TEXT_COLUMNS = "text_encoder", "text_columns"
# Parameters that pictures and texts do not have
_OF_FEATURES = ("labels", "features_key", "labels_key", "feature_columns", "id_columns")


@dataclass(frozen=True, eq=False)
class Encoders:
    """The encoders of a command, which are loaded at first use.

    With a model, they must be those of its training, which `facts` names. Without one, they may be
    chosen; `facts` then says which were used.
    """

    model: str | None = None  # name of its file
    facts: dict[str, Any] = field(default_factory=dict)
    encoder: str | None = None
    text_encoder: str | None = None
    templates: Sequence[str] | None = None
    text_columns: Sequence[str] | None = None
    on_error: str = "raise"  # or "skip"
    cache: bool = True

    def stream(
        self,
        source: str | Path,
        *,
        with_labels: bool = False,
        label_column: str | None = None,
        text_column: str | None = None,
        n_features: int | None = None,
        **options: Any,
    ) -> Stream:
        """Return the samples of a source; further options are those of `FeatureStream`."""
        wanted: dict[str, Any] = {"with_labels": with_labels, "label_column": label_column}
        are_pictures = text_column is None and is_pictures(source)
        known = self.facts.get(SAMPLE_COLUMN)
        column = text_column or (known if isinstance(known, str) else None)
        if not are_pictures and not self._are_texts(source, text_column, column, label_column):
            if self.model is not None:
                check_encoder(self.encoder, source)
            self._check_embedded(ENCODER, source)
            return FeatureStream(source, n_features=n_features, **wanted, **options)
        kind, remedy = "texts", "Leave it out."
        if are_pictures:
            kind, remedy = "pictures", "Put the pictures of a class into one folder."
        for name in _OF_FEATURES:
            if options.get(name):
                what = f"got {format_value(str(options[name]))}"
                rule = f"must be left out for {kind}"
                raise Problem(f"`{name}`", rule, what, remedy, option=name)
        encoder = self.images() if are_pictures else self.texts()
        spec = encoder.spec_
        if n_features not in (None, spec["dimension"]):
            rule = f"must have the {n_features} features of the other samples"
            what = f"{spec['name']} gives {spec['dimension']}"
            remedy = "Name their encoder with `encoder`."
            raise Problem(kind.capitalize(), rule, what, remedy, option="encoder")
        if isinstance(encoder, ImageEncoder):
            return PictureStream(source, encoder, **wanted, on_error=self.on_error)
        format = options.get("format", "csv")
        if text_column is None and column is not None and str(source) != STANDARD_INPUT:
            column = column if has_column(source, column) else None
        wanted |= {"text_column": column, "on_error": self.on_error}
        return TextStream(source, encoder, **wanted, format=format)

    def _are_texts(
        self, source: str | Path, given: str | None, column: str | None, label: str | None
    ) -> bool:
        """Whether the samples of a source are texts to encode."""
        if given is not None:
            return True
        if str(source) == STANDARD_INPUT:
            return column is not None
        of_texts = (self._find_known(ENCODER) or {}).get("kind") == "text"
        return (self.model is None or of_texts) and is_texts(source, column, label)

    @property
    def space(self) -> str:
        """Whether samples and classes were encoded to one space: a parameter of the model."""
        specs = [self._find_known(role) for role in (ENCODER, TEXT_ENCODER)]
        if None in specs:
            return "auto"
        return "joint" if share_space(*specs) else "separate"

    def prototypes(
        self, path: Path, label_column: str | None = None, *, of: Stream | None = None
    ) -> tuple[Prototypes, tuple[str, ...]]:
        """Return the prototypes of a file of classes, and its columns if it is one of numbers.

        The default encoder of texts depends on the samples that they are `of`.
        """
        columns = self.text_columns
        if columns is None:
            known = self.facts.get(TEXT_COLUMNS) or []
            columns = known if known and all(has_column(path, name) for name in known) else None
        if columns is None and not has_texts(path):
            self._require_texts(path.name)
            self._check_embedded(TEXT_ENCODER, path)
            return require_prototypes(path, label_column)
        if label_column is not None and not has_column(path, label_column):
            label_column = None  # that of the samples
        texts = class_texts(path, text_columns=columns, label_column=label_column)
        if columns is not None:
            self.facts.setdefault(TEXT_COLUMNS, [*columns])
        return self.prototypes_of(texts, of), ()

    def _require_texts(self, file: str) -> None:
        remedy = "Name columns of texts with `text_columns`, or leave it out."
        for name in ("text_encoder", "templates"):
            if getattr(self, name):
                rule, what = "must be left out for prototypes", f"{file} holds no texts"
                raise Problem(f"`{name}`", rule, what, remedy, option=(name, "text_columns"))

    def images(self) -> ImageEncoder:
        """Return the encoder of pictures; another than that of the training is refused."""
        name = self._name_of("image") or DEFAULT_IMAGE
        return self._load(ENCODER, ImageEncoder(name, cache=self.cache))

    def texts(self) -> TextEncoder:
        """Return the encoder of texts that are samples, in the same way."""
        name = self._name_of("text") or self.text_encoder or DEFAULT_TEXT
        templates = (self._find_known(ENCODER) or {}).get("templates")
        return self._load(ENCODER, TextEncoder(name, templates=templates, cache=self.cache))

    def _name_of(self, kind: str) -> str | None:
        """Return the name of the encoder of the samples, None for the default."""
        known = self._find_known(ENCODER)
        kinds = {"image": "pictures", "text": "texts"}
        found = None if known is None else known.get("kind", "image")
        if self.model is not None and found != kind:
            names = "" if found else ", and names none"
            raise ValueError(
                f"{kinds[kind].capitalize()} need the encoder of the training; {self.model} was "
                f"fitted on {kinds.get(str(found), 'features')}{names}. Encode them as the "
                f"training samples were, or fit again on {kinds[kind]}."
            )
        return self.encoder or (known or {}).get("name")

    def _find_known(self, role: str) -> dict[str, Any] | None:
        """Return what the training says about an encoder, if it names one."""
        return _spec(self.facts.get(role))

    def _load(self, role: str, encoder: Any) -> Any:
        """Return a loaded encoder, which must be that of the training if there is one."""
        given = getattr(self, role) is not None
        with name_encoder(role, given=given or self._find_known(role) is None):
            spec = encoder.spec_
        self._agree(role, spec, f"`{role}`" if given else "the one here")
        return encoder

    def prototypes_of(
        self, texts: ClassTexts, of: Stream | None, usual: Sequence[str] | None = None
    ) -> Prototypes:
        """Return the prototypes of classes that texts describe; `usual` are default templates."""
        known = self._find_known(TEXT_ENCODER)
        if known is None and self.model is not None:
            raise ValueError(
                f"Texts of classes need the text encoder of the training; {self.model} was fitted "
                "on prototypes, and names none. Add prototypes, or fit again on texts."
            )
        name, templates = self.text_encoder, self.templates
        if known is not None:
            name, templates = name or known["name"], templates or known.get("templates")
        else:
            name = name or self._name_for_texts()
            if isinstance(of, PictureStream) and templates is None and _are_names(texts):
                templates = NAME_TEMPLATES
        templates = usual if templates is None else templates
        templates = None if templates is None else [*templates]
        encoder = TextEncoder(name or DEFAULT_TEXT, templates=templates)
        return self._load(TEXT_ENCODER, encoder).prototypes(texts)

    def _name_for_texts(self) -> str | None:
        """Return the encoder of the samples if it encodes texts too."""
        spec = self._find_known(ENCODER) or {}
        # The graph of texts of a pair in ONNX has a name of its own.
        is_pair = spec.get("space") is not None and not spec["name"].startswith("onnx:")
        return (self.encoder or spec["name"]) if spec.get("kind") == "text" or is_pair else None

    def _check_embedded(self, role: str, source: str | Path) -> None:
        spec = embedded_spec(source)
        if spec is not None and (self.model is None or self._find_known(role)):
            self._agree(role, spec, Path(source).name)

    def _agree(self, role: str, spec: dict[str, Any], source: str) -> None:
        """Note the encoder of a source, or refuse another one than that of the training."""
        known = self._find_known(role)
        if known is None:
            self.facts[role] = spec
        elif known["revision"] != spec["revision"]:
            samples = "Texts of classes"
            if role == ENCODER:
                samples = "Texts" if spec.get("kind") == "text" else "Pictures"
            fitted = "the other samples were encoded"
            if self.model is not None:
                fitted = f"{self.model} was fitted"
            raise Problem(
                f"{samples} must be encoded as in training; {fitted} with {_format_spec(known)}, "
                f"and {source} is {_format_spec(spec)}. {_remedy(known, spec)}",
                option=role,
            )


def check_encoder(encoder: str | None, *sources: str | Path | None) -> None:
    """Refuse an encoder of pictures if no source holds any."""
    given = [source for source in sources if source is not None]
    if encoder is not None and not any(is_pictures(source) or is_texts(source) for source in given):
        rule, what = "must be left out for features", f"{given[0]} holds no pictures or texts"
        remedy = "Leave it out, or pass the pictures or texts."
        raise Problem("`encoder`", rule, what, remedy, option="encoder")


def _format_spec(spec: dict[str, Any]) -> str:
    return f"{spec['name']} (revision {spec['revision']})"


def _remedy(known: dict[str, Any], other: dict[str, Any]) -> str:
    if known["name"] != other["name"]:
        return f"Use {known['name']}, or fit again."
    if ":" in known["name"]:
        return "Use the files of the training, or fit again."
    return "Use the version of zonkey that it was fitted with, or fit again."


def name_encoder(option: str, *, given: bool) -> AbstractContextManager[None]:
    """Name the option in errors of an encoder: it may be wrong, or say where the encoder is."""
    hint = "" if given else f"If it is in another place now, pass `{option}`."
    return reword(Problem, {"`model`": f"`{option}`"}, hint, (option, "templates", "device"))


def embedded_spec(path: str | Path) -> dict[str, Any] | None:
    """Return the encoder of an npz file that `zonkey embed` wrote; None for other files."""
    if Path(path).suffix.lower() != ".npz":
        return None
    try:
        arrays = {array.name: array for array in stored_arrays(path)}
        return _spec(json.loads(str(arrays["encoder"].read())))
    except (DataError, KeyError, ValueError):  # its reader says what is wrong
        return None


def _spec(value: Any) -> dict[str, Any] | None:
    """Return a value if it names an encoder and its revision: anyone may write training facts."""
    if not isinstance(value, dict):
        return None
    named = all(isinstance(value.get(key), str) for key in ("name", "revision"))
    return value if named else None


def _are_names(texts: ClassTexts) -> bool:
    """Whether classes have no text but their names."""
    pairs = zip(texts.labels.tolist(), texts.texts, strict=True)
    return all(found == [speak_label(label)] for label, found in pairs)
