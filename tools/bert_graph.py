"""Turn the weights of a BERT encoder of sentences into a small ONNX graph.

The graph takes `input_ids` and `attention_mask`, both int64 of shape (texts, tokens), and returns
`embeddings` (texts, hidden) in float32: the mean of the last layer over the tokens, at unit length.
Matrices are stored as integers with scales, which only usual operators expand: a runtime turns the
layers (8 bits, a scale per output) into floats when it loads the graph, and expands just the rows
of the word table that a batch needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper

OPSET = 18
IR_VERSION = 9
PLANES = {4: (4,), 5: (4, 1), 6: (4, 2)}  # bits of a number, stored apart so that bytes are full
_MASKED = -1e4  # added to the scores of padding before the softmax


@dataclass(frozen=True)
class Storage:
    """How a matrix is stored: 4, 5, 6 or 8 bits per number, and a scale per `block` of a row.

    With `block` None a row has one scale.
    """

    bits: int = 8
    block: int | None = None


LAYERS = Storage(bits=8)


class _Graph:
    """Nodes and constants under construction; names follow the order of creation."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, values: Any, dtype: Any = np.float32, name: str = "") -> str:
        name = name or f"c{len(self.constants)}"
        self.constants[name] = np.ascontiguousarray(values, dtype=dtype)
        return name

    def shape(self, *sizes: int) -> str:
        """Return the name of a constant shape, one for equal shapes."""
        name = "shape_" + "_".join(map(str, sizes)).replace("-", "m")
        return name if name in self.constants else self.constant(sizes, np.int64, name)

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        output = output or f"n{len(self.nodes)}"
        node = helper.make_node(operator, inputs, [output], f"n{len(self.nodes)}", **attributes)
        self.nodes.append(node)
        return output

    def looked_up(self, name: str, matrix: np.ndarray, how: Storage, rows: str) -> str:
        """Store a matrix; return the rows of these numbers in float32."""
        codes, scales = quantize(matrix, how)
        planes = [codes] if how.bits == 8 else packed(codes, how.bits)
        tables = [
            self.constant(plane, plane.dtype, f"{name}.{part}") for part, plane in enumerate(planes)
        ]
        tables.append(self.constant(scales, np.float16, f"{name}.scale"))
        *found, scale = [self.add("Gather", table, rows) for table in tables]
        if how.bits == 8:
            values = self.add("Cast", found[0], to=TensorProto.FLOAT)
        else:
            values = self.unpacked(found, how.bits)
        width = matrix.shape[1]
        values = self.add("Reshape", values, self.shape(-1, how.block or width))
        scale = self.add("Cast", scale, to=TensorProto.FLOAT)
        scale = self.add("Reshape", scale, self.shape(-1, 1))
        return self.add("Reshape", self.add("Mul", values, scale), self.shape(-1, width))

    def unpacked(self, planes: list[str], bits: int) -> str:
        """Return the numbers of `packed` planes as floats, eight per row."""
        total = self.constant(-float(2 ** (bits - 1)))
        place = 0
        for plane, width in zip(planes, PLANES[bits], strict=True):
            column = self.add("Reshape", plane, self.shape(-1, 1))
            shifts = self.constant(np.arange(0, 8, width), np.uint8)
            part = self.add("BitShift", column, shifts, direction="RIGHT")
            part = self.add("BitwiseAnd", part, self.constant(2**width - 1, np.uint8))
            part = self.add("Reshape", part, self.shape(-1, 8))
            part = self.add("Cast", part, to=TensorProto.FLOAT)
            part = self.add("Mul", part, self.constant(float(2**place)))
            total = self.add("Add", part, total)
            place += width
        return total

    def norm(self, values: str, weights: Mapping[str, np.ndarray], key: str, eps: float) -> str:
        parts = [self.constant(weights[f"{key}.{kind}"]) for kind in ("weight", "bias")]
        return self.add("LayerNormalization", values, *parts, axis=-1, epsilon=eps)

    def linear(self, values: str, weights: Mapping[str, np.ndarray], key: str) -> str:
        codes, scales = quantize(weights[f"{key}.weight"], LAYERS)
        matrix = self.add("Cast", self.constant(codes.T, np.int8, key), to=TensorProto.FLOAT)
        matrix = self.add("Mul", matrix, self.constant(scales[:, 0]))
        product = self.add("MatMul", values, matrix)
        return self.add("Add", product, self.constant(weights[f"{key}.bias"]))


def quantize(matrix: np.ndarray, how: Storage) -> tuple[np.ndarray, np.ndarray]:
    """Return integers and float16 scales, whose products are near the matrix.

    Parameters
    ----------
    matrix : ndarray of shape (m, n)
        Numbers.
    how : Storage
        Bits per number, and numbers per scale.

    Returns
    -------
    codes : ndarray of shape (m, n)
        Signed integers of so many bits, int8.
    scales : ndarray of shape (m, n / block)
        A scale per block.
    """
    blocks = matrix.astype(np.float64).reshape(len(matrix), -1, how.block or matrix.shape[1])
    largest = 2 ** (how.bits - 1) - 1
    scales = (np.abs(blocks).max(axis=2) / largest).astype(np.float16)
    if how.bits < 8:
        scales = _better_scales(blocks, scales, largest)
    divisor = np.where(scales == 0, 1, scales).astype(np.float64)[:, :, None]
    codes = np.clip(np.rint(blocks / divisor), -largest, largest)
    return codes.reshape(matrix.shape).astype(np.int8), scales


def packed(codes: np.ndarray, bits: int) -> list[np.ndarray]:
    """Pack signed integers of fewer than 8 bits into bytes, one array per plane of bits.

    Parameters
    ----------
    codes : ndarray of shape (m, n)
        Integers; n is a multiple of 8.
    bits : int
        Bits per integer, a key of `PLANES`.

    Returns
    -------
    list of ndarray
        Bytes of shape (m, n * width / 8) per plane, lowest bits first.
    """
    values, planes = codes.astype(np.int64) + 2 ** (bits - 1), []
    for width in PLANES[bits]:
        parts = (values % 2**width).reshape(len(codes), -1, 8 // width)
        planes.append((parts << np.arange(0, 8, width)).sum(axis=2).astype(np.uint8))
        values = values >> width
    return planes


def _better_scales(blocks: np.ndarray, scales: np.ndarray, largest: int) -> np.ndarray:
    """Shrink scales where cutting off the largest numbers lowers the squared error."""
    best, least = scales, np.full(scales.shape, np.inf)
    for factor in np.arange(20, 11, -1) / 20:
        tried = (scales.astype(np.float64) * factor).astype(np.float16)
        divisor = np.where(tried == 0, 1, tried).astype(np.float64)[:, :, None]
        codes = np.clip(np.rint(blocks / divisor), -largest, largest)
        error = ((codes * divisor - blocks) ** 2).sum(axis=2)
        best = np.where(error < least, tried, best)
        least = np.minimum(error, least)
    return best


def bert_graph(
    weights: Mapping[str, np.ndarray],
    *,
    n_heads: int,
    max_tokens: int,
    words: Storage,
    eps: float = 1e-12,
) -> ModelProto:
    """Return the ONNX graph of a BERT encoder with mean pooling and unit length.

    Parameters
    ----------
    weights : mapping of str to ndarray
        Arrays under the names that transformers gives them in a BertModel.
    n_heads : int
        Number of attention heads.
    max_tokens : int
        Longest text. Positions beyond it are left out.
    words : Storage
        How the word table is stored.
    eps : float, default=1e-12
        Constant of the layer norms.

    Returns
    -------
    ModelProto
        The checked graph.
    """
    graph = _Graph()
    hidden = weights["embeddings.word_embeddings.weight"].shape[1]
    size = hidden // n_heads
    mask = graph.add("Cast", "attention_mask", to=TensorProto.FLOAT)
    values = _embedded(graph, weights, max_tokens, words, eps)
    ignored = graph.add("Sub", graph.constant(1.0), mask)
    ignored = graph.add("Mul", ignored, graph.constant(_MASKED))
    ignored = graph.add("Unsqueeze", ignored, graph.shape(1, 2))  # (texts, 1, 1, tokens)
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in weights:
        key = f"encoder.layer.{layer}"
        mixed = _attention(graph, values, ignored, weights, f"{key}.attention", size)
        values = graph.add("Add", values, mixed)
        values = graph.norm(values, weights, f"{key}.attention.output.LayerNorm", eps)
        wide = _gelu(graph, graph.linear(values, weights, f"{key}.intermediate.dense"))
        narrow = graph.linear(wide, weights, f"{key}.output.dense")
        values = graph.add("Add", values, narrow)
        values = graph.norm(values, weights, f"{key}.output.LayerNorm", eps)
        layer += 1
    weighted = graph.add("Mul", values, graph.add("Unsqueeze", mask, graph.shape(2)))
    # The sum has the direction of the mean.
    total = graph.add("ReduceSum", weighted, graph.shape(1), keepdims=0)
    length = graph.add("ReduceL2", total, graph.shape(1), keepdims=1)
    length = graph.add("Max", length, graph.constant(1e-12))
    graph.add("Div", total, length, output="embeddings")
    return _model(graph, hidden)


def _embedded(
    graph: _Graph, weights: Mapping[str, np.ndarray], max_tokens: int, how: Storage, eps: float
) -> str:
    """Return word plus position vectors after their layer norm."""
    ids = graph.add("Reshape", "input_ids", graph.shape(-1))
    table = weights["embeddings.word_embeddings.weight"]
    found = graph.looked_up("words", table, how, ids)
    shape = graph.add("Shape", "input_ids")
    whole = graph.add("Concat", shape, graph.shape(table.shape[1]), axis=0)
    found = graph.add("Reshape", found, whole)
    # All tokens are of the first type.
    places = weights["embeddings.position_embeddings.weight"][:max_tokens]
    places = places + weights["embeddings.token_type_embeddings.weight"][0]
    places = graph.constant(places, np.float16, "positions")
    n_tokens = graph.add("Slice", shape, graph.shape(1), graph.shape(2))
    places = graph.add("Slice", places, graph.shape(0), n_tokens)
    places = graph.add("Cast", places, to=TensorProto.FLOAT)
    return graph.norm(graph.add("Add", found, places), weights, "embeddings.LayerNorm", eps)


def _attention(
    graph: _Graph,
    values: str,
    ignored: str,
    weights: Mapping[str, np.ndarray],
    key: str,
    size: int,
) -> str:
    """Return the mixture of tokens that the heads of a layer, `size` wide, choose."""
    hidden = len(weights[f"{key}.output.dense.bias"])

    def heads(part: str, perm: list[int]) -> str:
        projected = graph.linear(values, weights, f"{key}.self.{part}")
        split = graph.add("Reshape", projected, graph.shape(0, 0, hidden // size, size))
        return graph.add("Transpose", split, perm=perm)

    scores = graph.add("MatMul", heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]))
    scores = graph.add("Div", scores, graph.constant(np.sqrt(size)))
    chosen = graph.add("Softmax", graph.add("Add", scores, ignored), axis=-1)
    mixed = graph.add("MatMul", chosen, heads("value", [0, 2, 1, 3]))
    mixed = graph.add("Transpose", mixed, perm=[0, 2, 1, 3])
    mixed = graph.add("Reshape", mixed, graph.shape(0, 0, hidden))
    return graph.linear(mixed, weights, f"{key}.output.dense")


def _gelu(graph: _Graph, values: str) -> str:
    error = graph.add("Erf", graph.add("Div", values, graph.constant(np.sqrt(2.0))))
    gate = graph.add("Add", error, graph.constant(1.0))
    return graph.add("Mul", graph.add("Mul", values, gate), graph.constant(0.5))


def _model(graph: _Graph, hidden: int) -> ModelProto:
    shape = ["texts", "tokens"]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "sentence_encoder",
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, shape)
                for name in ("input_ids", "attention_mask")
            ],
            [helper.make_tensor_value_info("embeddings", TensorProto.FLOAT, ["texts", hidden])],
            [numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="zonkey",
    )
    checker.check_model(model, full_check=True)
    return model
