"""Pictures per second of `ImageEncoder`, relative to a bare onnxruntime session; peak memory.

    python benchmarks/encode_speed.py [--pictures N]

The bare session gets batches of decoded pixels and does nothing else, once with the runtime's
default, by which waiting threads spin, and once without; the faster one is compared with. "decoded"
gives the encoder the same pixels as a list of arrays. JPEG files are drawn first; "decoding alone"
reads, decodes and resizes them with the same threads, without inference. Decoding and inference can
use all CPUs each: if they need t1 and t2 seconds alone, t1 + t2 is possible for both. Runs take
turns; the best of three counts. The CPU time per picture suffers least from other work on the
machine. Peak memory is that of a process of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from joblib import cpu_count
from PIL import Image

from recording import save, save_page, show
from zonkey.encoders.collection import Pictures
from zonkey.encoders.image_encoder import ImageEncoder
from zonkey.encoders.registry import DEFAULT_IMAGE, image_backend

BATCH, SIDE, REPEATS = 32, 224, 3
SMALL, LARGE = (320, 240), (4000, 3000)
N_LARGE, N_DRAWN = 200, 8  # large pictures, of which a few differ
MEMORY = (500, 2_000)  # pictures
BARE = ("bare session, decoded", "bare session without spinning, decoded")
END_TO_END = ("encoder, 320 x 240", "encoder, 4000 x 3000")


def draw(folder: Path, n: int, size: tuple[int, int], n_different: int) -> Path:
    """Write JPEG files of noise at several scales, which is about as hard as a photograph."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(n):
        path = folder / f"{i:05d}.jpg"
        if i >= n_different:
            shutil.copyfile(folder / f"{i % n_different:05d}.jpg", path)
            continue
        image = Image.new("RGB", size)
        for cells in (4, 32, 256):
            noise = rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8)
            layer = Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)
            image = Image.blend(image, layer, 0.5)
        image.save(path, quality=90)
    return folder


def session(spinning: bool) -> Callable[[np.ndarray], Any]:
    """Return the embedded graph with nothing around it; waiting threads keep a CPU busy or not."""
    import onnxruntime

    import zonkey.encoders

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = cpu_count()
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spinning)))
    graph = Path(zonkey.encoders.__file__).parent / "data" / f"{DEFAULT_IMAGE}.onnx"
    bare = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    name = bare.get_inputs()[0].name
    return lambda batch: bare.run(None, {name: batch})


def decode(folder: Path) -> None:
    """Read, decode and resize all pictures with the threads of the encoder, and keep none."""
    backend: Any = image_backend(DEFAULT_IMAGE, "cpu")
    pictures = Pictures.of(folder)

    def one(i: int) -> None:
        backend.prepare(pictures.open(i, at_least=backend.size))

    with ThreadPoolExecutor(min(8, cpu_count())) as pool:
        list(pool.map(one, range(len(pictures))))


def best_of(works: dict[str, Callable[[], Any]]) -> dict[str, tuple[float, float]]:
    """Return the least seconds and CPU seconds of each; repeats take turns."""
    best = dict.fromkeys(works, (np.inf, np.inf))
    for _ in range(REPEATS):
        for name, work in works.items():
            start, cpu = time.perf_counter(), time.process_time()
            work()
            spent = time.perf_counter() - start, time.process_time() - cpu
            best[name] = min(best[name][0], spent[0]), min(best[name][1], spent[1])
    return best


def speeds(place: Path, n: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (min(n, 320), SIDE, SIDE, 3), dtype=np.uint8)
    batches = [pixels[i : i + BATCH] for i in range(0, len(pixels), BATCH)]
    spinning, waiting = session(spinning=True), session(spinning=False)
    encoder = ImageEncoder(device="cpu", batch_size=BATCH)
    cached = ImageEncoder(device="cpu", batch_size=BATCH, cache=place / "cache")
    small = draw(place / "small", n, SMALL, n)
    large = draw(place / "large", min(n, N_LARGE), LARGE, N_DRAWN)
    time.sleep(0.2)  # files that have just changed are hashed again
    decoded = list(pixels)
    cached.transform(small)
    works: dict[str, tuple[int, Callable[[], Any]]] = {
        BARE[0]: (len(pixels), lambda: [spinning(batch) for batch in batches]),
        BARE[1]: (len(pixels), lambda: [waiting(batch) for batch in batches]),
        "encoder, decoded": (len(pixels), lambda: encoder.transform(decoded)),
        "decoding alone, 320 x 240": (n, lambda: decode(small)),
        END_TO_END[0]: (n, lambda: encoder.transform(small)),
        "encoder, 320 x 240, warm cache": (n, lambda: cached.transform(small)),
        "decoding alone, 4000 x 3000": (min(n, N_LARGE), lambda: decode(large)),
        END_TO_END[1]: (min(n, N_LARGE), lambda: encoder.transform(large)),
    }
    best = best_of({name: work for name, (_, work) in works.items()})
    per_second = {name: works[name][0] / best[name][0] for name in works}
    bare = max(per_second[name] for name in BARE)
    table = []
    for name, speed in per_second.items():
        decoding = per_second.get(name.replace("encoder", "decoding alone"))
        possible = 1 / (1 / bare + 1 / decoding) if name in END_TO_END and decoding else np.inf
        table.append(
            {
                "what": name,
                "pictures per second": round(speed, 1),
                "of the bare session": round(speed / bare, 2),
                "of the possible": f"{speed / possible:.2f}" if possible < np.inf else "",
                "CPU (ms per picture)": round(1e3 * best[name][1] / works[name][0], 2),
            }
        )
    return table


def peak(folder: str, n: int) -> float:
    """Encode the first pictures of a folder in parts, and return the peak memory in MB."""
    import resource

    encoder = ImageEncoder(device="cpu", batch_size=BATCH)
    for _ in encoder.blocks(Pictures.of(folder).subset(range(n))):
        pass
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def memory(place: Path) -> list[dict[str, Any]]:
    folder = draw(place / "many", max(MEMORY), SMALL, 100)
    table = []
    for n in MEMORY:
        command = [sys.executable, __file__, "--peak", str(folder), str(n)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        table.append({"pictures": n, "peak (MB)": round(json.loads(done.stdout))})
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pictures", type=int, default=1_000, help="of 320 x 240 pixels")
    parser.add_argument("--peak", nargs=2, metavar=("FOLDER", "N"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print(peak(options.peak[0], int(options.peak[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        # Memory first: a process starts with the peak of the one that starts it.
        found = memory(Path(folder))
        tables = {"Speed": speeds(Path(folder), options.pictures), "Memory": found}
    for title, rows in tables.items():
        show(title, rows)
    save("encode_speed", {name.lower(): rows for name, rows in tables.items()})
    title = f"Encoding pictures with {DEFAULT_IMAGE}, batches of {BATCH}, best of {REPEATS}"
    command = f"python benchmarks/encode_speed.py --pictures {options.pictures}"
    save_page("encode_speed", title, command, tables)


if __name__ == "__main__":
    main()
