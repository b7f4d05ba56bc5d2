"""The same samples in files of every kind that can be read in chunks."""

import json

import h5py
import numpy as np
import pandas as pd
import zarr

KINDS = [
    "npy", "npz", "h5", "zarr", "zarr_zip", "bare_zarr", "csv", "tsv", "jsonl", "parquet", "folder",
]  # fmt: skip


def save_samples(kind, folder, X, y, label="label", **columns):
    """Write samples to a file, and return its path, or also that of the labels if it has none."""
    path = folder / {"bare_zarr": "bare.zarr", "zarr_zip": "x.zarr.zip"}.get(kind, f"x.{kind}")
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    frame = frame.assign(**{label: y}, **columns)
    label = "labels" if label == "label" else label
    if kind in ("npy", "bare_zarr"):
        if kind == "npy":
            np.save(path, X)
        else:
            zarr.create_array(path, data=X, chunks=(9, X.shape[1]))
        (folder / "y.txt").write_text("\n".join(y))
        return path, folder / "y.txt"
    if kind == "npz":
        np.savez_compressed(path, features=X, **{label: y}, **columns)
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file["features"], file[label] = X, y.astype("S")
            for name, cells in columns.items():
                file[name] = cells.astype(object)
    elif kind == "zarr":
        save_zarr(path, X, **{label: y}, **columns)
    elif kind == "zarr_zip":
        with zarr.storage.ZipStore(path, mode="w") as store:
            save_zarr(store, X, **{label: y}, **columns)
    elif kind in ("csv", "tsv"):
        frame.to_csv(path, index=False, sep="," if kind == "csv" else "\t")
    elif kind == "jsonl":
        others = frame.drop(columns=frame.columns[: X.shape[1]]).to_dict("records")
        rows = zip(others, X.tolist(), strict=True)
        path.write_text("\n".join(json.dumps({**other, "features": x}) for other, x in rows))
    elif kind == "parquet":
        frame.to_parquet(path, row_group_size=20)
    else:
        path = folder / "parts"
        path.mkdir(exist_ok=True)
        for name, rows in (("b", slice(17, 40)), ("a", slice(0, 17)), ("c", slice(40, None))):
            frame[rows].to_parquet(path / f"{name}.parquet", row_group_size=11)
        (path / "_SUCCESS").write_text("")
    return (path,)


def save_zarr(store, X, **columns):
    group = zarr.open_group(store, mode="w")
    group.create_array("features", data=X, chunks=(7, X.shape[1]))
    for name, cells in columns.items():
        group.create_array(name, data=cells.astype(np.dtypes.StringDType()))
