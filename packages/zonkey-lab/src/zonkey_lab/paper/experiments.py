"""The experiments of section 5 of the paper, and seven more, as data: the runs that they need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .records import Key

RECOMMENDED = "recommended"
ABLATION = ("FPL", "RPL", "BPL0", "BPL1", "BPL")
# The paper's model under other readings of its text.
UNSCALED = ("BPL1, unscaled", "BPL, unscaled")
READINGS = (
    "BPL, as printed", *UNSCALED, "BPL, unscaled, as printed", "BPL, ridge chosen",
    "BPL, per neighbor",
)  # fmt: skip
ALTERNATIVES = ("without ambiguity handling", "minimum entropy", "BPL", "BPL, as printed")
# Systems that the paper compares with, in NumPy; those among them that draw random numbers; and
# those that need torch, which all do.
RANDOM_PEERS = ("DeViSE", "SJE", "ALE", "LATEM")
PEERS = ("DAP", "ConSE", "SSE", *RANDOM_PEERS, "ESZSL", "SynC", "SAE", "EXEM")
TORCH_PEERS = ("CMT", "DEM", "CVAE", "VZSL", "SP-AEN", "GAN+ALE", "CADA-VAE", "TF-VAEGAN")
# Systems that learn from unlabeled test samples: never in a table of inductive models.
TRANSDUCTIVE = ("DIPL",)
WITHOUT_SYNTHESIS = "BPL0, recommended features"
ON_TOP = (
    "BPL1, unscaled, recommended features", "BPL, unscaled, recommended features",
    "BPL, recommended features", "assigned, unscaled, recommended features",
)  # fmt: skip
# The paper's few-shot model under other readings of its text.
SHOT_READINGS = (
    "BPL (SFSP1), as printed", "BPL (SFSP1), unscaled", "BPL (SFSP1), unscaled, as printed",
    "BPL (SFSP1), sampled base", "BPL (SFSP1), sampled base, unscaled",
)  # fmt: skip
SYNTHESES = ("BPL (SFSP1)", "BPL (SFSP2)", "BPL (SFSP1), unscaled", "BPL (SFSP2), unscaled")
SHOT_MODELS = (
    "BPL (SFSP1)", "BPL (novel)", *SHOT_READINGS, "NN", "nearest mean", "shots alone",
    "prototype alone", RECOMMENDED,
)  # fmt: skip
# Few-shot systems to compare with; those of them that make sense among hundreds of classes; and
# those that learn from unlabeled queries: never in a table of inductive models.
MANY_CLASS_PEERS = (
    "SimpleShot", "LSL", "PPA", "Prototypical Net", "Matching Net", "Relation Net", "mAP-SSVM",
    "distribution calibration", "GDA", "LP++", "Tip-Adapter",
)  # fmt: skip
SHOT_PEERS = (*MANY_CLASS_PEERS, "MAML", "MAML, first order", "Meta-Learn LSTM", "SNAIL")
# Few-shot systems that are trained on base classes by random steps.
TRAINED_SHOTS = (
    "LSL", "PPA", "Prototypical Net", "Matching Net", "Relation Net", "mAP-SSVM", "MAML",
    "MAML, first order", "Meta-Learn LSTM", "SNAIL",
)  # fmt: skip
PUBLISHED_SIZES = ("LSL, published size", "PPA, published size")  # long: they are timed only
# Few-shot systems that are trained on pictures, the baseline first, and the data set of pictures.
PICTURES = "emoji-pictures"
END_TO_END = (
    "nearest mean, end to end", "Prototypical Net, end to end", "Matching Net, end to end",
    "Relation Net, end to end", "MAML, end to end",
)  # fmt: skip
TRANSDUCTIVE_SHOTS = ("PT-MAP", "LaplacianShot", "TIM", "alpha-TIM", "BD-CSPN")
# The paper synthesizes from base samples (SFSP2) with all novel classes at once only.
AT_ONCE = (*dict.fromkeys((*SYNTHESES, *SHOT_MODELS)), *MANY_CLASS_PEERS)
BEYOND = (
    "BPL", "BPL0", "RPL", "SAE", "ESZSL", "exemplars",
    WITHOUT_SYNTHESIS, "RPL, recommended features", "ESZSL, recommended features",
    "exemplars, recommended features", RECOMMENDED,
)  # fmt: skip

# Zero-shot models whose results depend on the seed.
RANDOM = {
    "BPL1", *READINGS, *ALTERNATIVES, *(f"{name}, unscaled" for name in ALTERNATIVES[:2]),
    *ON_TOP, *RANDOM_PEERS, *TORCH_PEERS,
}  # fmt: skip
# Zero-shot models whose selection starts from the parameters chosen for another model.
STARTS_FROM = dict.fromkeys(ON_TOP, WITHOUT_SYNTHESIS)
# Few-shot models that choose their parameters themselves, for one shot and for every task.
CHOOSE_THEMSELVES = ("prototype alone", RECOMMENDED)
# Zero-shot models whose chosen parameters a few-shot model uses at K = 0.
AT_ZERO_SHOTS = {
    "BPL (SFSP1)": "BPL",
    "BPL (SFSP1), as printed": "BPL, as printed",
    "BPL (SFSP1), unscaled": "BPL, unscaled",
    "BPL (SFSP1), unscaled, as printed": "BPL, unscaled, as printed",
    "BPL (SFSP1), sampled base": "BPL",
    "BPL (SFSP1), sampled base, unscaled": "BPL, unscaled",
    "BPL (SFSP2)": "BPL",
    "BPL (SFSP2), unscaled": "BPL, unscaled",
}

_ZERO_SHOT_PROTOCOLS = (
    "zero-shot", "map", "convergence", "selection", "sensitivity", "unlabeled",
)  # fmt: skip
_TABLE = (*ABLATION, *READINGS, *PEERS, *TORCH_PEERS, RECOMMENDED)
_TRIAL_SHOTS = (1, 5)
_UNLABELED_TRIALS = tuple(f"unlabeled-trials-{n_shot}" for n_shot in _TRIAL_SHOTS)


@dataclass(frozen=True)
class Experiment:
    """The runs behind one table or figure.

    `paper` is the label of the table or figure in the paper, "" if it has none; `source` is the
    table whose printed figures are shown next to measured ones. The other models are compared with
    `subject`, and nothing is reported without its runs; "" denotes the paper's own model. `data` is
    the only data set of an experiment, and of no other; "" if it runs on all others.
    """

    name: str
    title: str
    paper: str
    source: str
    protocol: str
    models: tuple[str, ...]
    metrics: tuple[str, ...]
    subject: str = ""
    data: str = ""

    def suits(self, data: str) -> bool:
        """Whether the experiment runs on a data set."""
        others = {each.data for each in EXPERIMENTS.values()}
        return data.lower() == self.data if self.data else data.lower() not in others

    @property
    def protocols(self) -> tuple[str, ...]:
        """Protocols of the runs; trials have one per number of shots."""
        if self.protocol == "trials":
            return tuple(f"trials-{n_shot}" for n_shot in _TRIAL_SHOTS)
        if self.protocol == "unlabeled":
            return (self.protocol, *_UNLABELED_TRIALS)
        if self.protocol == "unlabeled-trials":
            return _UNLABELED_TRIALS
        return (self.protocol,)


_LIST = (
    Experiment(
        "pure-zsl", "Zero-shot learning", "Table pzsl", "pzsl", "zero-shot",
        _TABLE, ("zsl", "hit@5"),
    ),
    Experiment(
        "generalized-zsl", "Generalized zero-shot learning", "Table gsrl", "gsrl", "zero-shot",
        _TABLE, ("acc_s", "acc_u", "hm", "hm_calibrated", "ausuc"),
    ),
    Experiment(
        "ablation", "Ablation", "Fig. comp", "", "zero-shot", (*ABLATION, *UNSCALED), ("zsl",)
    ),
    Experiment(
        "tsne", "Maps of unseen classes", "Fig. vis", "", "map", (*ABLATION, *UNSCALED), ()
    ),
    Experiment(
        "alternatives", "Alternatives to competition", "Table gradopt", "gradopt", "zero-shot",
        ("BPL0", *ALTERNATIVES, *(f"{name}, unscaled" for name in ALTERNATIVES[:3]),
         "BPL, unscaled, as printed"), ("zsl",),
    ),
    Experiment(
        "large-scale-fsl", "All novel classes at once", "Fig. metafsl1", "datagen", "all-classes",
        AT_ONCE, ("hit@1", "hit@5"),
    ),
    Experiment(
        "synthesis", "Synthesis from shots or from base samples", "Table datagen", "datagen",
        "all-classes", SYNTHESES, ("hit@1", "hit@5"),
    ),
    Experiment(
        "runtime", "Time of a few-shot fit", "Table fsltime", "fsltime", "runtime",
        (*AT_ONCE, *PUBLISHED_SIZES), ("seconds",),
    ),
    Experiment(
        "mini-imagenet", "5-way trials", "Table metafsl", "metafsl", "trials",
        (*SHOT_MODELS, *SHOT_PEERS), ("accuracies",),
    ),
    Experiment(
        "end-to-end", "Networks trained end to end on pictures", "", "", "trials", END_TO_END,
        ("accuracies",), data=PICTURES,
    ),
    Experiment("sensitivity", "Sensitivity to parameters", "", "", "sensitivity", ("BPL",), ()),
    Experiment(
        "convergence", "Convergence of Algorithm 1", "", "", "convergence",
        ("BPL", "BPL, unscaled"), (),
    ),
    Experiment(
        "any-shot", "From no shot to several", "", "", "all-classes",
        ("BPL (SFSP1)", "BPL (SFSP2)", RECOMMENDED), ("hit@1", "hit@5"),
    ),
    Experiment(
        "beyond", "Beyond the paper: the recommended model and its peers", "", "", "zero-shot",
        BEYOND, ("zsl", "hm", "hm_calibrated", "ausuc"), subject=RECOMMENDED,
    ),
    Experiment(
        "on-top", "Do synthesis and competition help on recommended features?", "", "",
        "zero-shot", (WITHOUT_SYNTHESIS, *ON_TOP), ("zsl", "hm", "ausuc"),
        subject=WITHOUT_SYNTHESIS,
    ),
    Experiment(
        "transductive-fsl", "Few shots and unlabeled queries", "", "", "unlabeled-trials",
        (RECOMMENDED, *TRANSDUCTIVE_SHOTS), (),
    ),
    Experiment(
        "unlabeled", "Unlabeled samples", "", "", "unlabeled", (RECOMMENDED, *TRANSDUCTIVE), ()
    ),
)  # fmt: skip
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _LIST}


@dataclass(frozen=True)
class Scale:
    """Number of seeds, folds, trials and repetitions: many for figures to cite, few for a look.

    Every model is tuned on `n_points` points of its grid, drawn once if it has more, and on at most
    `n_points_more` next to the best ones. Few-shot systems are trained with `n_shot_seeds` seeds.
    Maps show `map_classes` unseen classes, all if it is None.
    """

    n_seeds: int = 5
    n_shot_seeds: int = 3  # trials and repetitions average the rest
    n_folds: int = 3  # a fold holds out about as many classes as are unseen in the benchmarks
    n_points: int = 12
    n_points_more: int = 12
    n_trials: int = 600
    n_selection_trials: int = 60
    n_repeats: int = 5
    most_shots: int = 5
    n_timings: int = 3
    map_classes: int | None = None
    quick: bool = False

    def options(self, protocol: str) -> dict[str, Any]:
        """Return the arguments of a protocol besides model, data, parameters and seed."""
        if shots_of(protocol) is not None:
            return {"n_trials": self.n_trials}
        if protocol == "all-classes":
            return {"most_shots": self.most_shots, "n_repeats": self.n_repeats}
        if protocol == "runtime":
            return {"most_shots": self.most_shots, "n_timings": self.n_timings}
        if protocol == "map":
            return {} if self.map_classes is None else {"n_classes": self.map_classes}
        return {"quick": True} if protocol == "convergence" and self.quick else {}


FULL = Scale()
QUICK = Scale(
    n_seeds=2, n_shot_seeds=1, n_folds=3, n_points=4, n_points_more=4, n_trials=30,
    n_selection_trials=10, n_repeats=2, most_shots=3, n_timings=1, quick=True,
)  # fmt: skip


def is_zero_shot(protocol: str) -> bool:
    """Whether a protocol takes zero-shot models; the others take few-shot models."""
    return protocol in _ZERO_SHOT_PROTOCOLS


def shots_of(protocol: str) -> int | None:
    """Return the number of shots of trials; None for other protocols."""
    name, _, shots = protocol.rpartition("trials-")
    return int(shots) if name in ("", "unlabeled-") and shots.isdigit() else None


def is_selection(key: Key) -> bool:
    """Whether a run scores the points of a grid."""
    return key.protocol.startswith("selection") or key.protocol == "sensitivity"


def selection_of(key: Key, n_shot: int | None = None) -> Key:
    """Return the run that chooses the parameters of this one, on the same task.

    With all classes at once there is one for every number of shots `n_shot`.
    """
    if is_selection(key):
        return key
    if is_zero_shot(key.protocol):
        return Key("selection", key.data, key.model)
    task = shots_of(key.protocol) or ("all" if n_shot is None else f"all-{n_shot}")
    if key.model in CHOOSE_THEMSELVES:
        task = 1
    return Key(f"selection-{task}", key.data, key.model)


def selections_by_shots(key: Key, most_shots: int) -> dict[str, Key]:
    """Return the selections of a run with all classes at once, by number of shots."""
    return {str(n_shot): selection_of(key, n_shot) for n_shot in range(1, most_shots + 1)}


def zero_selection_of(key: Key) -> Key | None:
    """Return the run that chooses the parameters of a few-shot model at K = 0."""
    if key.protocol != "all-classes" or key.model not in AT_ZERO_SHOTS:
        return None
    return Key("selection", key.data, AT_ZERO_SHOTS[key.model])


def start_of(key: Key) -> Key | None:
    """Return the selection that another selection starts from."""
    if key.protocol != "selection" or key.model not in STARTS_FROM:
        return None
    return Key("selection", key.data, STARTS_FROM[key.model])


def runs_of(
    experiments: Iterable[Experiment], data: str, scale: Scale
) -> dict[Key, tuple[Key, ...]]:
    """Return every run once, with the runs that choose its parameters."""
    found: dict[Key, tuple[Key, ...]] = {}

    def add(key: Key) -> None:
        needed = _list_needed(key, scale)
        for each in needed:
            add(each)
        found[key] = needed

    for experiment in experiments:
        for key in _keys(experiment, data, scale):
            add(key)
    return found


def _list_needed(key: Key, scale: Scale) -> tuple[Key, ...]:
    """Return the runs that choose the parameters of a run."""
    start, zero = start_of(key), zero_selection_of(key)
    if is_selection(key):
        return () if start is None else (start,)
    if key.protocol == "all-classes":
        chosen = tuple(dict.fromkeys(selections_by_shots(key, scale.most_shots).values()))
        return (*chosen, *([] if zero is None else [zero]))
    return (selection_of(key, scale.most_shots),)


def require_suitable(experiments: list[Experiment], data_names: list[str]) -> None:
    """Raise an error if no experiment runs on any of the data sets."""
    if not any(each.suits(name) for each in experiments for name in data_names):
        first = experiments[0]
        needed = f"{first.data} only" if first.data else f"other data than {PICTURES}"
        raise ValueError(
            f"The data must suit the experiment, and {first.name} runs on {needed}; got "
            f"{', '.join(data_names)}. Choose others with --data; `python "
            "tools/build_emoji_pictures.py` draws pictures."
        )


def _keys(experiment: Experiment, data: str, scale: Scale) -> Iterator[Key]:
    if not experiment.suits(data):
        return
    for model in experiment.models:
        for protocol in experiment.protocols:
            if model in TRANSDUCTIVE and not is_zero_shot(protocol):
                continue
            for seed in range(_count_seeds(protocol, model, scale)):
                yield Key(protocol, data, model, seed)


def _count_seeds(protocol: str, model: str, scale: Scale) -> int:
    if protocol == "zero-shot" and model in RANDOM:
        return scale.n_seeds
    is_measured_often = protocol == "all-classes" or protocol.startswith("trials-")
    n_seeds = min(scale.n_shot_seeds, scale.n_seeds)
    is_trained = model in (*TRAINED_SHOTS, *PUBLISHED_SIZES, *END_TO_END)
    return n_seeds if is_measured_often and is_trained else 1
