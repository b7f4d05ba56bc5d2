"""Put the graph of an image encoder in front of an ONNX graph of features."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from ..files.readers import join_lines
from ..labels import format_value
from ..optional import require_package
from .image_encoder import ImageEncoder, load_backend
from .onnx_backend import OnnxImages

if TYPE_CHECKING:
    import onnx

_INPUT, _PREFIX = "pixels", "encoder/"
_LONGEST = 200  # characters that are quoted from an error


def from_pixels(made: onnx.ModelProto, encoder: Any) -> onnx.ModelProto:
    """Return a graph whose input is pixels instead of the features that an encoder makes of them.

    The input `pixels` is what the encoder's backend prepares. The encoder's weights keep their
    types. `metadata_props` gets `encoder` (name, revision, dimension) and `preprocessing`, as JSON.
    `made`, whose only input is features of shape (n, n_features), is changed.
    """
    onnx = require_package("onnx", "Exporting a graph")
    backend, graph = _onnx_backend(encoder), made.graph
    name = graph.input[0].name
    n_features = graph.input[0].type.tensor_type.shape.dim[1].dim_value
    if n_features != backend.n_features:
        raise ValueError(
            f"`encoder` must make the {n_features} features that the model takes; {backend.name} "
            f"makes {backend.n_features}. Pass the encoder that the model was fitted with."
        )
    node, (source, target) = onnx.helper.make_node, backend.nodes
    front = _convert_model(onnx, backend, made)
    graph.input[0].CopyFrom(_pixels(onnx, backend))
    nodes = [
        node("Identity", [_INPUT], [_PREFIX + source.name]),
        *front.graph.node,
        node("Cast", [_PREFIX + target.name], ["encoded"], to=onnx.TensorProto.FLOAT),
        node("Flatten", ["encoded"], [name], axis=1),
        *graph.node,
    ]
    del graph.node[:]
    graph.node.extend(nodes)
    graph.initializer.extend(front.graph.initializer)
    graph.sparse_initializer.extend(front.graph.sparse_initializer)
    for key, value in {"encoder": encoder.spec_, "preprocessing": backend.preprocessing}.items():
        made.metadata_props.add(key=key, value=json.dumps(value, ensure_ascii=False))
    onnx.checker.check_model(made, full_check=True)
    return made


def _onnx_backend(encoder: Any) -> OnnxImages:
    is_named = isinstance(encoder, ImageEncoder) and isinstance(encoder.model, str)
    backend = load_backend(encoder.model, encoder.device) if is_named else None
    if not isinstance(backend, OnnxImages):
        got = format_value(encoder.model if isinstance(encoder, ImageEncoder) else encoder)
        raise TypeError(
            "`encoder` in an ONNX graph must be ImageEncoder('efficientnet-lite0') or "
            f"ImageEncoder('onnx:PATH'); got {got}. Pass one, or export without it, and encode the "
            "pictures before the graph."
        )
    if backend.nodes[0].shape[0] == 1:
        raise DataError(
            f"{backend.path} must take a batch of any size in one graph with a classifier; it "
            "takes one picture. Export it with a dynamic first axis."
        )
    return backend


def _convert_model(onnx: Any, backend: OnnxImages, made: onnx.ModelProto) -> Any:
    """Return the encoder's model with prefixed names, and let both have one set of operators."""
    from onnx import compose, inliner, version_converter

    model = inliner.inline_local_functions(onnx.load(backend.path))
    (ours,) = made.opset_import
    versions = {opset.domain: opset.version for opset in model.opset_import}
    theirs = versions.pop("ai.onnx", None) or versions.pop("", ours.version)
    if theirs < ours.version and not _means_the_same(onnx, model.graph, theirs, ours.version):
        try:
            model = version_converter.convert_version(model, ours.version)
        except Exception as error:  # of any type
            raise DataError(
                f"{backend.path} must have operators of opset {ours.version} in one graph with a "
                f"classifier; those of opset {theirs} cannot be converted "
                f"({join_lines(error)[:_LONGEST]}). Export it with a newer opset."
            ) from None
    # The operators of the classifier mean the same in newer sets.
    ours.version = max(ours.version, theirs)
    made.opset_import.extend(onnx.helper.make_opsetid(*other) for other in versions.items())
    made.ir_version = max(made.ir_version, model.ir_version)
    return compose.add_prefix(model, _PREFIX)


def _means_the_same(onnx: Any, graph: Any, old: int, new: int) -> bool:
    """Whether no operator of a graph has changed between two opsets."""

    def find_version(node: Any, opset: int) -> int:
        return onnx.defs.get_schema(node.op_type, opset, "").since_version

    own = [node for node in graph.node if node.domain in ("", "ai.onnx")]
    inner = [attribute for node in own for attribute in node.attribute if attribute.HasField("g")]
    return not inner and all(find_version(node, old) == find_version(node, new) for node in own)


def _pixels(onnx: Any, backend: OnnxImages) -> Any:
    """Return the description of the input: any number of samples as the encoder prepares them."""
    about = backend.preprocessing
    sides = [about["size"]] * 2
    shape = ["n", *sides, 3] if about["layout"] == "nhwc" else ["n", 3, *sides]
    kinds = {"uint8": onnx.TensorProto.UINT8, "float32": onnx.TensorProto.FLOAT}
    text = "Pictures, resized and laid out as `preprocessing` in metadata_props says."
    return onnx.helper.make_tensor_value_info(_INPUT, kinds[about["dtype"]], shape, text)
