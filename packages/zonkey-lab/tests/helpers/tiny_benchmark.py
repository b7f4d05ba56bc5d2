"""A tiny data set in the layout of xlsa17: four samples of each class, some of them for test."""

import numpy as np
from mat_files import save_mat

# In an order that is neither that of the numbers nor the alphabet's, as in the benchmark.
NAMES = ["002.Laysan_Albatross", "005.Auk", "001.killer+whale", "006.Wren", "003.Owl", "004.Tit"]
FOLDER_NUMBERS = np.argsort(np.argsort(NAMES)) + 1.0
SEEN, UNSEEN = [0, 1, 3, 5], [2, 4]
LISTS = {
    "trainvalclasses": [NAMES[number] for number in SEEN],
    "testclasses": [NAMES[number] for number in UNSEEN],
    "valclasses1": [NAMES[1]],
    "valclasses2": [NAMES[3], NAMES[5]],
}


def folder_contents():
    """Return the variables by file; the last sample of each seen class is for test."""
    rng = np.random.default_rng(0)
    numbers = rng.permutation(np.repeat(np.arange(len(NAMES)), 4))
    of_class = [np.flatnonzero(numbers == number) for number in range(len(NAMES))]

    def location(parts):
        return np.concatenate(parts)[:, None] + 1.0

    return {
        "res101": {
            "features": rng.random((5, len(numbers))).astype("f4"),
            "labels": numbers[:, None] + 1.0,
            "image_files": [f"images/{NAMES[number]}/{i}.jpg" for i, number in enumerate(numbers)],
        },
        "att_splits": {
            "att": rng.random((3, len(NAMES))),
            "original_att": rng.random((3, len(NAMES))) * 100,
            "allclasses_names": list(NAMES),
            "trainval_loc": location([of_class[number][:-1] for number in SEEN]),
            "test_seen_loc": location([of_class[number][-1:] for number in SEEN]),
            "test_unseen_loc": location([of_class[number] for number in UNSEEN]),
        },
    }


def write_folder(folder, contents, lists=LISTS):
    """Write a file per entry, and lists of classes."""
    folder.mkdir(parents=True, exist_ok=True)
    for stem, variables in contents.items():
        save_mat(folder / f"{stem}.mat", variables)
    for stem, names in lists.items():
        (folder / f"{stem}.txt").write_text("\n".join(names) + "\n")
    return folder


def spoil(contents, change):
    """Let a function change the variables of both files, as one dict."""
    values = {**contents["res101"], **contents["att_splits"]}
    change(values)
    return {
        stem: {key: values[key] for key in variables if key in values}
        for stem, variables in contents.items()
    }
