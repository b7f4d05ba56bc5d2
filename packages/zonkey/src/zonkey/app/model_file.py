"""What a model file says about itself, and the same model as an ONNX graph."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..persistence.card import model_card
from ..persistence.container import write_whole
from ..persistence.model import model_info
from .inputs import check_sources
from .progress import Progress, Step, ignore
from .targets import check_target


def info(model: str | Path, card: str | Path | None = None) -> dict[str, Any]:
    """Describe a model file, and write its model card if asked for; the arrays are not read.

    Parameters
    ----------
    model : str or Path
        Model file.
    card : str or Path, default=None
        Model card to write, in Markdown.

    Returns
    -------
    dict
        See `zonkey.model_info`.
    """
    check_sources(model=model)
    if card is not None:
        check_target("card", Path(card), model)
    found = model_info(model)
    if card is not None:
        write_whole(card, model_card(model).encode("utf-8", "replace"))
    return found


@dataclass(frozen=True)
class Exported:
    """An ONNX graph in a file.

    The file is complete when this is returned.

    Parameters
    ----------
    output : str
        The file.
    bytes : int
        Its size.
    outputs : list of str
        Names of its outputs.
    top : int
        Number of best classes that it lists.

    See Also
    --------
    export : Returns it.

    Examples
    --------
    >>> from zonkey.app import Exported
    >>> Exported("m.onnx", bytes=3945, outputs=["label", "scores"], top=5).outputs
    ['label', 'scores']
    """

    output: str
    bytes: int
    outputs: list[str]
    top: int


def export(
    model: str | Path,
    onnx: str | Path,
    *,
    top: int = 5,
    with_encoder: bool = False,
    progress: Progress = ignore,
) -> Exported:
    """Write a model as an ONNX graph, from features or pixels to labels and probabilities.

    Parameters
    ----------
    model : str or Path
        Model file.
    onnx : str or Path
        File to write.
    top : int, default=5
        Number of best classes in its output.
    with_encoder : bool, default=False
        Whether it starts from the pixels of pictures.
    progress : callable, default=ignore
        Called with each `Step`.

    Returns
    -------
    Exported
        What was written.
    """
    check_sources(model=model)
    check_target("onnx", Path(onnx), model)
    from ..inference.onnx import to_onnx
    from .models import LoadedModel

    loaded = LoadedModel.load(model)
    progress(Step("Exporting"))
    k = min(top, len(loaded.last.classes_))
    encoder = loaded.encoders.images() if with_encoder else None
    with loaded.refuse_kind("export"):
        graph = to_onnx(loaded.model, k=k, encoder=encoder)
    write_whole(onnx, graph.SerializeToString())
    outputs = [output.name for output in graph.graph.output]
    return Exported(str(onnx), Path(onnx).stat().st_size, outputs, k)
