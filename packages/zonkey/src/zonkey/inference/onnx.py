"""Export a fitted model as an ONNX graph: features or pixels to labels and probabilities.

The graph repeats the arithmetic of `predict` on float32 samples, in float32. The two differ only in
the order of sums: on the emoji and on CUB, by up to 2e-6 in scores and 6e-6 in probabilities. Both
differ from float64 by as much. Products in float64 inside the graph came no closer to `predict` and
took up to twice the time.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from ..arrays import to_numpy
from ..encoders.image_encoder import split_encoder
from ..encoders.onnx_pixels import from_pixels
from ..labels import check_count
from ..optional import require_package
from ..preprocessing import FeatureNormalizer, WithinClassWhitener
from ..preprocessing.normalizer import fitted_steps
from ..tree import Tree
from .nodes import find_above
from .scorer import LinearScores, NearestReferences, Scorer, find_central, find_scorer, unwrap

if TYPE_CHECKING:
    import onnx

# The first opset whose ScatterElements takes minima, and the file format of its time: runtimes
# refuse newer formats than their own.
_OPSET, _IR_VERSION = 18, 8
_MODELS = (
    "AnyShotClassifier, ZeroShotClassifier, FewShotClassifier, NearestSupport, ESZSL, "
    "ExemplarRegression"
)
_INPUT, _ROWS = "features", "n"


def to_onnx(model: Any, *, k: int = 5, encoder: Any = None) -> onnx.ModelProto:
    """Return a fitted model as an ONNX graph, with its preprocessing.

    The input `features` is a float32 tensor of shape (n, n_features), with any number n of rows.
    The outputs are

    - `label`: predicted labels, shape (n,); `reject_label` where the model rejects a sample
    - `probabilities`: of each candidate, shape (n, n_candidates), if the model has `predict_proba`
    - `scores`: of each candidate, shape (n, n_candidates), also with two candidates, for which
      `decision_function` returns the difference of these columns
    - `top_labels`: the `k` best candidates, best first, shape (n, k)
    - `top_probabilities`, or `top_scores` without probabilities: their values, shape (n, k)
    - `node_probabilities`: of each node of a tree of classes, shape (n, n_nodes), if the model has
      one; `nodes` in `metadata_props` names them and their parents

    Columns are in the order of `classes_`. Equal scores keep that order. Labels are strings, int64
    (whole numbers and booleans) or double (other numbers).

    With an encoder, the input is `pixels`, pictures as that encoder prepares them: uint8 of shape
    (n, 224, 224, 3) for "efficientnet-lite0". `preprocessing` in `metadata_props` says how pictures
    are resized and laid out.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted classifier of this library, or a pipeline that ends with one. Preprocessing, inside
        or in front of it, consists of `FeatureNormalizer`, `WithinClassWhitener`, scikit-learn's
        `StandardScaler`, `Normalizer` and `PCA`, and pipelines of these.
    k : int, default=5
        Number of best candidates. All of them if there are fewer.
    encoder : ImageEncoder, default=None
        Encoder of the pictures that the model was fitted on; its own model is an ONNX graph,
        "efficientnet-lite0" or "onnx:PATH". None: the first step of a pipeline if that is an
        `ImageEncoder`, else the graph takes features.

    Returns
    -------
    onnx.ModelProto
        The graph. `onnx.save(graph, path)` writes it. Its `metadata_props` are `classes`, `outputs`
        and with a tree `nodes` (all JSON), `model`, `n_features` and `zonkey_version`; with an
        encoder, also `encoder` (name, revision, dimension) and `preprocessing` (both JSON).

    See Also
    --------
    AnyShotClassifier.predict_top : The same ranking in this library.

    Notes
    -----
    Labels are those of `predict` on float32 samples, except where two scores differ by less than
    rounding, about 1e-6 of their size. There, `predict` itself depends on the number of rows.

    A graph checks no values: a row with NaN or infinity gets NaN scores and an arbitrary label,
    where `predict` raises an error.

    Examples
    --------
    >>> from zonkey import NearestSupport, to_onnx
    >>> model = NearestSupport("mean").fit([[0, 0], [0, 2], [3, 1]], ["cat", "cat", "owl"])
    >>> [output.name for output in to_onnx(model).graph.output]
    ['label', 'scores', 'top_labels', 'top_scores']
    """
    first, model = split_encoder(model)
    if first is not None and encoder is not None:
        raise ValueError(
            "`encoder` must be None for a pipeline that starts with one; got "
            f"{type(encoder).__name__}. Leave it out."
        )
    encoder = first if encoder is None else encoder
    preprocessing, classifier = unwrap(model)
    scorer = _read_scorer(classifier)
    k = min(check_count("k", k, 1), len(scorer.labels))
    graph, X = _GraphBuilder(), _INPUT
    for transformer in (preprocessing, getattr(classifier, "preprocessing_", None)):
        X = _add_transformer(graph, X, transformer)
    scores = _SCORES[type(scorer.form)](graph, X, scorer)
    labels = _label_values(scorer)
    _add_answers(graph, scores, scorer, labels, k)
    outputs = _describe_outputs(scorer, labels, k)
    made = graph.finish(classifier, _n_features(model), scorer, labels.dtype, outputs)
    return made if encoder is None else from_pixels(made, encoder)


class _GraphBuilder:
    """Nodes and constants of a graph under construction. Values are known by their names."""

    def __init__(self) -> None:
        self._onnx = require_package("onnx", "Exporting a graph")
        self._nodes: list[Any] = []
        self._constants: dict[Any, Any] = {}

    def apply(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output, which is made up if not given."""
        output = output or f"{operator.lower()}_{len(self._nodes)}"
        self.apply_all(operator, inputs, [output], **attributes)
        return output

    def apply_all(self, operator: str, inputs: Any, outputs: list[str], **attributes: Any) -> None:
        """Add a node with these outputs."""
        node = self._onnx.helper.make_node(operator, list(inputs), outputs, **attributes)
        self._nodes.append(node)

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Return the name of a constant; equal constants are stored once."""
        with np.errstate(over="ignore"):
            array = to_numpy(values).astype(dtype, order="C")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(
                f"Numbers in an ONNX graph must fit {array.dtype}; got some of this model that do "
                "not. Scale the samples, and fit again."
            )
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            stored = array.astype(object) if array.dtype.kind == "U" else array
            self._constants[key] = self._onnx.numpy_helper.from_array(stored, name)
        return self._constants[key].name

    def finish(
        self, model: Any, n_features: int, scorer: Scorer, dtype: Any, outputs: dict[str, Any]
    ) -> onnx.ModelProto:
        """Return the checked graph of a model with this many raw features and these outputs.

        Labels are written as in `dtype`.
        """
        helper, name = self._onnx.helper, type(model).__name__
        features = _describe("float", [_ROWS, n_features], "Raw features, one sample per row.")
        graph = helper.make_graph(
            self._nodes,
            name,
            [_value_info(helper, _INPUT, features)],
            [_value_info(helper, *output) for output in outputs.items()],
            list(self._constants.values()),
        )
        release = version("zonkey")
        made = helper.make_model(
            graph,
            producer_name="zonkey",
            producer_version=release,
            ir_version=_IR_VERSION,
            opset_imports=[helper.make_opsetid("", _OPSET)],
        )
        about = {
            "classes": json.dumps(scorer.labels.astype(dtype).tolist(), ensure_ascii=False),
            "model": name,
            "n_features": str(n_features),
            "outputs": json.dumps(outputs, ensure_ascii=False),
            "zonkey_version": release,
        }
        if scorer.tree is not None:
            above = scorer.tree.parents
            pairs = [[node, above[node]] for node in scorer.tree.nodes.tolist()]
            about["nodes"] = json.dumps(pairs, ensure_ascii=False)
        helper.set_model_props(made, about)
        self._onnx.checker.check_model(made, full_check=True)
        return made


def _describe(kind: str, shape: list[Any], text: str) -> dict[str, Any]:
    return {"type": kind, "shape": shape, "description": text}


def _value_info(helper: Any, name: str, value: dict[str, Any]) -> Any:
    kind = getattr(helper.TensorProto, value["type"].upper())
    return helper.make_tensor_value_info(name, kind, value["shape"], value["description"])


# Preprocessing.


def _n_features(step: Any) -> Any:
    """Return the number of features of the first step that knows it, None if none does."""
    if not isinstance(step, Pipeline):
        return getattr(step, "n_features_in_", None)
    known = (_n_features(inner) for _, inner in step.steps)
    return next((n for n in known if n is not None), None)


def _add_transformer(graph: _GraphBuilder, X: str, transformer: Any) -> str:
    """Add the steps of a fitted transformer, and return the name of the result."""
    if transformer is None or transformer == "passthrough":
        return X
    if isinstance(transformer, FrozenEstimator):
        return _add_transformer(graph, X, transformer.estimator)
    if isinstance(transformer, Pipeline):
        for _, step in transformer.steps:
            X = _add_transformer(graph, X, step)
        return X
    if type(transformer) not in _STEPS:
        known = ", ".join(kind.__name__ for kind in _STEPS)
        raise TypeError(
            f"Preprocessing in an ONNX graph must consist of {known} and pipelines of these; got "
            f"{type(transformer).__name__}. Fit a model without it, and apply it before the graph."
        )
    return _STEPS[type(transformer)](graph, X, transformer)


def _add_normalizer(graph: _GraphBuilder, X: str, step: FeatureNormalizer) -> str:
    power, mean, norm = fitted_steps(step)
    if power is not None and power != 1:
        sizes, signs = graph.apply("Abs", X), graph.apply("Sign", X)
        if power == 0.5:
            powered = graph.apply("Sqrt", sizes)
        else:
            powered = graph.apply("Pow", sizes, graph.constant(power))
        X = graph.apply("Mul", signs, powered)
    if mean is not None:
        X = graph.apply("Sub", X, graph.constant(mean))
    if norm is None:
        return X
    # Division by the largest entry first prevents under- and overflow of squares.
    X = _divide_rows(graph, X, _row_norm(graph, X, "max"), smallest=0.0)
    return _divide_rows(graph, X, _row_norm(graph, X, "l2"), smallest=0.0)


def _add_whitener(graph: _GraphBuilder, X: str, step: WithinClassWhitener) -> str:
    return graph.apply("MatMul", X, graph.constant(step.whitening_))


def _add_scaler(graph: _GraphBuilder, X: str, step: StandardScaler) -> str:
    if step.with_mean:
        X = graph.apply("Sub", X, graph.constant(step.mean_))
    if step.with_std:
        X = graph.apply("Div", X, graph.constant(step.scale_))
    return X


def _add_pca(graph: _GraphBuilder, X: str, step: PCA) -> str:
    X = graph.apply("Sub", X, graph.constant(step.mean_))
    axes = to_numpy(step.components_).T
    if step.whiten:
        deviations = np.sqrt(step.explained_variance_)
        axes = axes / np.maximum(deviations, np.finfo(deviations.dtype).eps)
    return graph.apply("MatMul", X, graph.constant(axes))


def _scale_rows(graph: _GraphBuilder, X: str, step: Normalizer) -> str:
    # scikit-learn does not scale rows shorter than ten rounding units.
    least = np.nextafter(np.float32(10) * np.finfo(np.float32).eps, np.float32(0))
    return _divide_rows(graph, X, _row_norm(graph, X, step.norm), smallest=least)


def _row_norm(graph: _GraphBuilder, X: str, norm: str) -> str:
    axis = graph.constant([1], np.int64)
    if norm == "max":
        return graph.apply("ReduceMax", graph.apply("Abs", X), axis)
    return graph.apply({"l1": "ReduceL1", "l2": "ReduceL2"}[norm], X, axis)


def _divide_rows(graph: _GraphBuilder, X: str, sizes: str, smallest: Any) -> str:
    """Divide rows by their sizes, except where these are not above `smallest`."""
    is_above = graph.apply("Greater", sizes, graph.constant(smallest))
    return graph.apply("Div", X, graph.apply("Where", is_above, sizes, graph.constant(1.0)))


# Scores.


def _read_scorer(model: Any) -> Scorer:
    """Return the scorer of a fitted model whose scores a graph can compute."""
    scorer = find_scorer(model)
    # A graph can hold the preprocessing of a model, but no other change of samples.
    changes = scorer is not None and scorer.transform is not None
    if (
        scorer is None
        or scorer.compute is not None
        or (changes and not hasattr(model, "preprocessing_"))
    ):
        raise TypeError(
            f"An ONNX graph needs one of {_MODELS}, or a pipeline that ends with one; got "
            f"{type(model).__name__}. Pass such a fitted model, for instance the `best_estimator_` "
            "of a search."
        )
    return scorer


def _compare_with_centers(graph: _GraphBuilder, X: str, scorer: Scorer) -> str:
    form = scorer.linear_in(np.dtype(np.float32))
    if form.M is not None:
        X = graph.apply("MatMul", X, graph.constant(form.M))
    centers = graph.constant(2 * to_numpy(form.centers))
    constants = graph.constant(-to_numpy(form.constants))
    return graph.apply("Gemm", X, centers, constants, transB=1, output="scores")


def _compare_with_references(graph: _GraphBuilder, X: str, scorer: Scorer) -> str:
    form: Any = scorer.form
    references = to_numpy(form.references).astype(np.float32)
    origin = find_central(references)
    X, references = graph.apply("Sub", X, graph.constant(origin)), references - origin
    lengths = graph.constant(np.sum(references * references, axis=1))
    others = graph.apply("Gemm", X, graph.constant(-2 * references), lengths, transB=1)
    own = graph.apply("ReduceSumSquare", X, graph.constant([1], np.int64))
    # Rounding makes zero distances negative.
    distances = graph.apply("Max", graph.apply("Add", own, others), graph.constant(0.0))
    codes, n_classes = to_numpy(form.codes), form.n_classes
    if not np.array_equal(codes, np.arange(n_classes)):
        distances = _find_nearest(graph, distances, codes, n_classes)
    return graph.apply("Neg", distances, output="scores")


def _find_nearest(graph: _GraphBuilder, distances: str, codes: np.ndarray, n_classes: int) -> str:
    """Return the smallest distance to a reference of each class."""
    n_rows = graph.apply("Shape", distances, end=1)
    shape = graph.apply("Concat", n_rows, graph.constant([n_classes], np.int64), axis=0)
    far = graph.apply("Expand", graph.constant(np.finfo(np.float32).max), shape)
    every = graph.apply("Expand", graph.constant(codes, np.int64), graph.apply("Shape", distances))
    return graph.apply("ScatterElements", far, every, distances, axis=1, reduction="min")


# Answers.


def _add_answers(
    graph: _GraphBuilder, scores: str, scorer: Scorer, labels: np.ndarray, k: int
) -> None:
    tree = scorer.tree
    best = graph.apply("ArgMax", scores, axis=1, keepdims=0)
    count, places = graph.constant([k], np.int64), "top_places"
    graph.apply_all("TopK", [scores, count], ["top_scores", places], axis=1)
    if scorer.temperature is not None:
        scaled = graph.apply("Div", scores, graph.constant(scorer.temperature))
        P = graph.apply("Softmax", scaled, axis=1, output="probabilities")
        graph.apply("GatherElements", P, places, axis=1, output="top_probabilities")
        nodes = None if tree is None else _add_nodes(graph, P, tree)
        if tree is not None:
            leaves = graph.constant(tree.positions(tree.leaves), np.int64)
            best = graph.apply("Gather", leaves, best)
            places = graph.apply("Gather", leaves, places)
        best = _apply_rejection(graph, best, P, scorer, nodes)
    names = graph.constant(labels, labels.dtype)
    graph.apply("Gather", names, best, output="label")
    graph.apply("Gather", names, places, output="top_labels")


def _add_nodes(graph: _GraphBuilder, probabilities: str, tree: Tree) -> str:
    """Return the sums of the probabilities of the leaves below each node."""
    pairs = tree.membership.tocoo()
    parts = graph.apply("Gather", probabilities, graph.constant(pairs.col, np.int64), axis=1)
    n_rows = graph.apply("Shape", probabilities, end=1)
    shape = graph.apply("Concat", n_rows, graph.constant([len(tree)], np.int64), axis=0)
    empty = graph.apply("Expand", graph.constant(0.0), shape)
    rows = graph.constant(pairs.row[None, :], np.int64)
    rows = graph.apply("Expand", rows, graph.apply("Shape", parts))
    options = {"axis": 1, "reduction": "add", "output": "node_probabilities"}
    return graph.apply("ScatterElements", empty, rows, parts, **options)


def _apply_rejection(
    graph: _GraphBuilder, best: str, probabilities: str, scorer: Scorer, nodes: str | None
) -> str:
    """Return the place of the best candidate, or that after the last one for a rejected sample.

    With probabilities of nodes, a rejected sample gets the deepest one that is accepted.
    """
    below, axis = scorer.rejection.below, graph.constant([1], np.int64)
    if below is None:
        return best
    highest = graph.apply("ReduceMax", probabilities, axis, keepdims=0)
    is_rejected = graph.apply("Less", highest, graph.constant(below))
    other = graph.constant(len(scorer.names), np.int64)
    if scorer.tree is not None and nodes is not None and len(scorer.tree.inner):
        above = find_above(scorer.tree, None)
        Q = graph.apply("Gather", nodes, graph.constant(above, np.int64), axis=1)
        half = graph.apply("Mul", Q, graph.constant(0.5))
        order = graph.apply("Add", half, graph.constant(scorer.tree.depths[above]))
        is_low = graph.apply("Less", Q, graph.constant(below))
        order = graph.apply("Where", is_low, graph.constant(0.0), order)
        found = graph.apply("ArgMax", order, axis=1, keepdims=0)
        found = graph.apply("Gather", graph.constant(above, np.int64), found)
        deepest = graph.apply("ReduceMax", order, axis, keepdims=0)
        is_sure = graph.apply("Greater", deepest, graph.constant(0.0))
        other = graph.apply("Where", is_sure, found, other)
    return graph.apply("Where", is_rejected, other, best)


def _label_values(scorer: Scorer) -> np.ndarray:
    """Return the candidates, or the nodes of the tree, and the label of rejected samples."""
    labels = scorer.names
    values, kinds = labels.tolist(), {labels.dtype.kind}
    if scorer.rejection.below is not None:
        values.append(scorer.rejection.check_label(labels))
        kinds.add(np.asarray(values[-1]).dtype.kind)
    if "U" in kinds:
        return np.asarray(values, str)
    try:
        return np.asarray(values, np.float64 if "f" in kinds else np.int64)
    except OverflowError:
        raise ValueError(
            f"Labels in an ONNX graph must be text, or numbers that fit int64; got {max(values)}. "
            "Fit with text labels."
        ) from None


def _describe_outputs(scorer: Scorer, labels: np.ndarray, k: int) -> dict[str, dict[str, Any]]:
    """Return type, shape and meaning of each output."""
    q = len(scorer.labels)
    kind = {"U": "string", "i": "int64", "f": "double"}[labels.dtype.kind]
    predicted, ranked = "Predicted label", "scores"
    if len(labels) > len(scorer.names):
        below = scorer.rejection.below
        deepest = "" if scorer.tree is None else "the deepest node that is not, or "
        label = labels[-1].item()
        predicted += f", or {deepest}{label!r} if the highest probability is below {below}"
    outputs = {"label": _describe(kind, [_ROWS], f"{predicted}.")}
    each = "of each candidate, in the order of `classes`."
    if scorer.temperature is not None:
        ranked = "probabilities"
        outputs[ranked] = _describe("float", [_ROWS, q], f"Probability {each}")
    outputs["scores"] = _describe("float", [_ROWS, q], f"Score {each}")
    best = "Labels of the best candidates, best first."
    outputs["top_labels"] = _describe(kind, [_ROWS, k], best)
    outputs[f"top_{ranked}"] = _describe("float", [_ROWS, k], f"Their {ranked}.")
    if scorer.tree is not None:
        shape = [_ROWS, len(scorer.tree)]
        text = "Probability of each node of the tree, in the order of `nodes`."
        outputs["node_probabilities"] = _describe("float", shape, text)
    return outputs


_STEPS: dict[type, Callable[[_GraphBuilder, str, Any], str]] = {
    FeatureNormalizer: _add_normalizer,
    WithinClassWhitener: _add_whitener,
    StandardScaler: _add_scaler,
    Normalizer: _scale_rows,
    PCA: _add_pca,
}
_SCORES: dict[Any, Callable[[_GraphBuilder, str, Scorer], str]] = {
    LinearScores: _compare_with_centers,
    NearestReferences: _compare_with_references,
}
