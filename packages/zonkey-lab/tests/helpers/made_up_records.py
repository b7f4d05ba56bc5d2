"""Records of made-up results, complete for every protocol, for tests of the report."""

from itertools import product
from statistics import harmonic_mean

import numpy as np

from zonkey_lab.paper.bench.models import FEW_SHOT, ZERO_SHOT, AnyShotModel
from zonkey_lab.paper.experiments import (
    AT_ZERO_SHOTS,
    CHOOSE_THEMSELVES,
    RANDOM,
    STARTS_FROM,
    TRANSDUCTIVE,
    TRANSDUCTIVE_SHOTS,
    WITHOUT_SYNTHESIS,
    is_zero_shot,
)
from zonkey_lab.paper.records import Key, Records, pack

NASTY = "<b>$x_1$</b> | \"& 'y'"
CLASSES = [NASTY, "ant", "bee", "cat", "dog"]
HASH = "0123456789abcdef" * 4
N_TRIALS, N_REPEATS, SHOTS = 12, 3, [0, 1, 2, 3]
CHOSEN = {"alpha": 0.3, "rho": 0.5, "mu": 0.1}
CHANGES = [0.5, 0.2, 0.08, 0.03, 0.004, 0.002]
# What is mapped, compared and judged, whatever the catalog of models holds.
SYSTEMS = (
    "CMT", "DeViSE", "DAP", "ConSE", "SSE", "SJE", "ALE", "SynC", "CVAE", "SAE", "DEM", "VZSL",
    "SP-AEN", "GAN+ALE", "LATEM", "ESZSL",
)  # fmt: skip
UNSCALED = (
    "BPL, unscaled", "BPL1, unscaled", "without ambiguity handling, unscaled",
    "minimum entropy, unscaled",
)  # fmt: skip
MAPPED = ("FPL", "RPL", "BPL0", "BPL1", "BPL", "BPL1, unscaled", "BPL, unscaled")
SCATTER = {"FPL": 2.5, "RPL": 2.2, "BPL0": 2.0}  # falls with every component
# Shares of samples that a model gets right: far enough apart to be told apart.
SKILL = {
    "FPL": 0.2,
    "RPL": 0.35,
    "BPL0": 0.55,
    "BPL1": 0.75,
    "BPL": 0.95,
    "BPL1, unscaled": 0.75,
    "BPL, unscaled": 0.95,
    "recommended": 0.7,
    WITHOUT_SYNTHESIS: 0.65,
    "BPL, recommended features": 0.45,
    "BPL, unscaled, recommended features": 0.85,
    "BPL1, unscaled, recommended features": 0.65,
}
META = (
    "Matching Net", "Meta-Learn LSTM", "MAML", "Prototypical Net", "mAP-SSVM", "Relation Net",
    "SNAIL",
)  # fmt: skip
SHOT_READINGS = ("unscaled", "sampled base", "sampled base, unscaled")
SHOT_SKILL = {
    "BPL (SFSP1)": 0.7,
    **{f"BPL (SFSP1), {reading}": 0.7 for reading in SHOT_READINGS},
    "BPL (SFSP2)": 0.65,
    "BPL (SFSP2), unscaled": 0.65,
    "BPL (novel)": 0.5,
    "NN": 0.45,
    "PPA": 0.4,
    "LSL": 0.3,
    **dict.fromkeys(META, 0.31),
}
PUBLISHED_SIZES = ("LSL, published size", "PPA, published size")
TIMED = ("BPL (SFSP1)", "BPL (SFSP2)", "LSL", "PPA")
STEEP = {"LSL": 0.08, "PPA": 0.08}  # they gain more by a shot, so that the lead of others shrinks


def choice_of(protocol, model):
    """Return what is chosen for a model: nothing if it has nothing to choose from."""
    spec = (ZERO_SHOT if is_zero_shot(protocol) else FEW_SHOT).get(model)
    return CHOSEN if spec is None or spec.grid or isinstance(spec, AnyShotModel) else {}


class MadeUp:
    """Writes records into a folder and remembers what is in them.

    `results` holds the results by protocol, model and seed, arrays not packed.
    """

    def __init__(self, folder, data="cub", features="lite0.mat", seed=0, **about):
        self.records, self.data, self.features = Records(folder), data, features
        self.about, self.top = about, {}  # of the data; of every record
        self.results = {}
        self.rng = np.random.default_rng(seed)

    def write(self, protocol, model, seed=0, *, settings=None, **results):
        """Write one record."""
        self.results[protocol, model, seed] = results
        packed = {
            key: pack(value) if isinstance(value, np.ndarray) else value
            for key, value in results.items()
        }
        about = {
            "features_file": self.features,
            "name": self.data.upper(),
            "sha256": HASH,
            "split": "made up",
            "n_features": 7,
            "n_samples": {"train": 90, "test_seen": 1000, "test_unseen": 200},
            "n_seen": 9,
            "n_unseen": len(CLASSES),
            **self.about,
        }
        key = Key(protocol, self.data, model, seed)
        catalog = ZERO_SHOT if is_zero_shot(protocol) else FEW_SHOT
        preset = getattr(catalog.get(model), "preset", "paper")
        known = {"data": HASH, "preset": preset, "protocol_version": 2}
        return self.records.write(
            key,
            {**known, **(settings or {"parameters": choice_of(protocol, model)})},
            **self.top,
            command=f"zonkey bench all --data {self.data}",
            data=about,
            results=packed,
            seconds=1.25,
            peak_memory_mb=321.0,
        )

    def zero_shot(self, model, skill, seed=0, **changed):
        """Write a zero-shot run that gets a share of samples right; None leaves a figure out."""
        truth = np.repeat(np.arange(len(CLASSES), dtype=np.int16), 40)
        wrong = (truth + self.rng.integers(1, len(CLASSES), size=len(truth))) % len(CLASSES)
        order = np.tile(np.arange(40), len(CLASSES))  # what is easy for one is easy for all
        predicted = np.where(order + seed < 40 * skill, truth, wrong).astype(np.int16)
        accuracy = np.mean([np.mean(predicted[truth == j] == j) for j in range(len(CLASSES))])
        results = {
            "zsl": float(accuracy),
            "hit@5": 1.0,
            "classes": CLASSES,
            "truth": truth,
            "predicted": predicted,
            "acc_s": 0.6,
            "acc_u": float(accuracy) / 2,
            "hm": harmonic_mean([0.6, float(accuracy) / 2]),
            "ausuc": 0.25 + 0.002 * seed,
            "curve": {"seen": [0.6, 0.5, 0.0], "unseen": [0.0, 0.3, float(accuracy)]},
        }
        if getattr(ZERO_SHOT.get(model), "calibrates", False):
            results["hm_calibrated"] = 0.5 + 0.01 * seed
        kept = {key: value for key, value in {**results, **changed}.items() if value is not None}
        return self.write("zero-shot", model, seed, **kept)

    def selection(self, protocol, model, chosen=CHOSEN, *, n_folds=3, **more):
        """Write a selection over a small grid around what is chosen."""
        points = [
            {
                "parameters": dict(zip(chosen, values, strict=True)),
                "scores": [float(score) for score in self.rng.random(n_folds)],
            }
            for values in (product((0.1, 0.3, 0.5), repeat=len(chosen)) if chosen else ())
        ]
        trials = {"n_trials": None if protocol.startswith("selection-all") else 5}
        few = {"n_folds": n_folds} if is_zero_shot(protocol) else trials
        if protocol == "selection" and model in STARTS_FROM:
            few["start_of"] = STARTS_FROM[model]
        settings = {"grid": {name: [0.1, 0.3, 0.5] for name in chosen}, **few}
        return self.write(protocol, model, settings=settings, chosen=chosen, points=points, **more)

    def own_choice(self, protocol, model):
        """Write what a model that chooses itself has chosen."""
        known = {"grid": {}, **({"validation": HASH} if protocol != "selection" else {})}
        return self.write(protocol, model, settings=known, chosen=CHOSEN, points=[])

    def unlabeled(self, unbalanced=True):
        """Write figures with and without unlabeled samples."""
        figures = {"zsl": 0.5, "zsl_unlabeled": 0.6, "hm": 0.4, "hm_unlabeled": 0.45}
        self.write("unlabeled", "recommended", **figures)
        self.unlabeled_trials("recommended", unbalanced)

    def unlabeled_trials(self, model, unbalanced=True):
        """Write trials with and without unlabeled queries."""
        kinds = ("balanced", "unbalanced") if unbalanced else ("balanced",)
        for n_shot in (1, 5):
            found = {
                f"{kind}{ending}": skill + 0.01 * self.rng.normal(size=N_TRIALS)
                for kind in kinds
                for ending, skill in (("", 0.6), ("_unlabeled", 0.7))
            }
            sizes = {"n_way": 5, "n_shot": n_shot, "n_query": 15, "n_trials": N_TRIALS}
            self.write(f"unlabeled-trials-{n_shot}", model, **found, **sizes)

    def trials(self, model, skill, asked, accuracies=None, *, seed=0, settings=None, **changed):
        """Write small trials; data may give fewer shots than asked for."""
        values = np.clip(skill + 0.05 * self.rng.normal(size=N_TRIALS), 0, 1)
        values = values if accuracies is None else np.array(accuracies)
        sizes = {"n_way": 5, "n_shot": asked, "n_query": 15, "n_trials": len(values), **changed}
        about = {"seed": seed, "settings": settings}
        return self.write(f"trials-{asked}", model, **about, accuracies=values, **sizes)

    def hits(self, model, values, shots, *, seed=0, settings=None, **more):
        """Write given hits among all classes, by repetition and number of shots, for any k."""
        hits = dict.fromkeys(("hit@1", "hit@5"), np.array(values).tolist())
        about = {"seed": seed, "settings": settings, "n_novel": 5}
        return self.write("all-classes", model, shots=list(shots), **about, **hits, **more)

    def all_classes(self, model, skill, shots=SHOTS, slope=0.05, **settings):
        """Write hit@k among all classes, which grows with the number of shots."""
        # Without a shot there is nothing to draw.
        noise = 0.002 * self.rng.normal(size=(N_REPEATS, len(shots))) * (np.asarray(shots) > 0)
        hits = skill - 0.3 + slope * np.asarray(shots) + noise
        return self.write(
            "all-classes",
            model,
            **{"hit@1": hits.tolist(), "hit@5": (hits + 0.2).tolist()},
            shots=list(shots),
            n_novel=len(CLASSES),
            queries_fixed=True,
            settings={"parameters": choice_of("all-classes", model), **settings},
        )

    def runtime(self, model, shots=SHOTS[1:]):
        """Write times of a fit: half a second a shot and more."""
        more = {"BPL (SFSP1)": 0.0, "BPL (SFSP2)": 0.25}.get(model, 5.0)
        seconds = [0.5 * n_shot + more for n_shot in shots]
        known = {"shots": list(shots), "seconds": seconds, "n_timings": [3] * len(shots)}
        return self.write("runtime", model, **known, base_mb=1 + more, peak_mb=None)

    def map(self, model, classes=CLASSES, **ratios):
        """Write a map; the ratios of scatters are left out if they are None."""
        truth = np.repeat(np.arange(len(classes)), 4)
        places = 5 * self.rng.normal(size=(len(classes), 2))
        near = places[truth] + self.rng.normal(size=(len(truth), 2))
        value = SCATTER.get(model, 1.8 if "BPL1" in model else 1.5)
        ratios = {"compactness": value, "centering": value / 3, **ratios}
        return self.write(
            "map",
            model,
            classes=list(classes),
            samples=near.tolist(),
            prototypes=places.tolist(),
            truth=truth.tolist(),
            predicted=np.where(np.arange(len(truth)) % 4, truth, 0).tolist(),
            **{name: ratio for name, ratio in ratios.items() if ratio is not None},
        )

    def convergence(self, changes=tuple(CHANGES), model="BPL"):
        """Write a long fit."""
        n = len(changes)
        return self.write(
            "convergence",
            model,
            objective=[1 / (1 + t) for t in range(n + 1)],
            change=list(changes),
            steps=[0, *range(2, n + 1)],
            zsl=[0.5, *(0.5 + 0.01 * t for t in range(2, n + 1))],
        )

    def everything(self):
        """Write records of every protocol."""
        for model in dict.fromkeys([*ZERO_SHOT, *UNSCALED, *SYSTEMS]):
            if model in TRANSDUCTIVE:
                self.write("unlabeled", model, zsl_unlabeled=0.55, hm_unlabeled=0.4)
            else:
                for seed in range(2 if model in RANDOM else 1):
                    self.zero_shot(model, SKILL.get(model, 0.6), seed)
            if isinstance(ZERO_SHOT.get(model), AnyShotModel):
                self.own_choice("selection", model)
            elif model in ZERO_SHOT:
                self.selection("selection", model, choice_of("selection", model))
        for model in MAPPED:
            self.map(model)
        self.selection("sensitivity", "BPL")
        for model in dict.fromkeys([*FEW_SHOT, *SHOT_SKILL]):
            if model in PUBLISHED_SIZES:
                continue
            spec, skill = FEW_SHOT.get(model), SHOT_SKILL.get(model, 0.4)
            from_zero = spec is not None and spec.from_zero
            if model in TRANSDUCTIVE_SHOTS:
                self.unlabeled_trials(model)
                continue
            for task in (1, 5, "all") if model not in CHOOSE_THEMSELVES else ():
                key = (f"selection-{task}", model)
                self.selection(*key, choice_of(*key))
            if model in CHOOSE_THEMSELVES:
                self.own_choice("selection-1", model)
            for n_shot in (1, 5):
                self.trials(model, skill, n_shot)
            zero = {"zero_parameters": CHOSEN} if model in AT_ZERO_SHOTS else {}
            shots, slope = SHOTS if from_zero else SHOTS[1:], STEEP.get(model, 0.05)
            self.all_classes(model, skill, shots, slope, **zero)
            if model in TIMED:
                self.runtime(model)
        for model in PUBLISHED_SIZES:
            self.runtime(model)
        for model in ("BPL", "BPL, unscaled"):
            self.convergence(model=model)
        self.unlabeled()
        return self
