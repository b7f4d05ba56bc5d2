"""The first screen: what was done, on which data, and the claims of the paper in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..experiments import EXPERIMENTS
from ..printed import PRINTED, find_printed
from ..records import Record
from .blocks import Block, Cell, Code, Part, Section, TableBlock, Text, join_cells
from .claims import IN_PART, OUTCOMES, JudgedClaim, Judgment
from .collection import Collection
from .rules import FAILS, NOT_JUDGED, REPRODUCES, UNDECIDED
from .tables import compares, describe_features

_WHAT = (
    "zonkey implements competitive bidirectional projection learning with semantic feature "
    "synthesis (BPL), zero-shot and few-shot, its ablations and alternatives, the systems that the "
    "paper compares with, and every experiment of the paper. Parameters are chosen on training or "
    "validation classes only."
)
_OTHER_FEATURES = (
    "Its benchmarks are not part of zonkey, because their files are too large. With the res101 "
    "files of xlsa17 in the data folder, two commands measure the paper's own tables:"
)
_OWN_FEATURES = "zonkey bench all --data awa2 cub sun --runs runs\nzonkey report --runs runs"
_READINGS = (
    "Verdicts follow from rules, which are at the end. Equations 1 and 19 can be read in several "
    "ways: the perturbation is divided by the squared norm of W (printed scaling) or is not "
    "(unscaled); few-shot episodes use all base samples or a sample of them (sampled base). A "
    "verdict without a reading holds for all. Ours: the printed scaling, with 95 % intervals; K: "
    "shots per class."
)
_WORDS = {
    REPRODUCES: "reproduced",
    IN_PART: "reproduced in part (some readings, measures or data)",
    FAILS: "not reproduced",
    UNDECIDED: "undecided",
    NOT_JUDGED: "not judged, because the data cannot show them",
}


def opening_section(collection: Collection, judged: Sequence[JudgedClaim]) -> Section:
    """Return what was implemented, on which data, and how the paper fares."""
    n_measured = count_measured(collection)
    blocks: list[Block] = [Text(headline(collection, judged)), Text(_WHAT)]
    blocks += [Text(f"Data: {text}") for text in _describe_all(collection)]
    paper = f"The paper's own features: {n_measured} of {len(PRINTED)} figures of its tables are"
    blocks += [Text(f"{paper} measured on them here.", is_banner=True)]
    if n_measured < len(PRINTED):
        blocks += [Text(_OTHER_FEATURES), Code(_OWN_FEATURES)]
    blocks += _name_quick_runs(collection)
    if collection.n_left_out:
        text = f"{collection.n_left_out} records with other settings than seed 0 are left out."
        blocks.append(Text(text, is_dim=True))
    return Section("In short", [Part("", blocks)])


def headline(collection: Collection, judged: Sequence[JudgedClaim]) -> str:
    """Return how the paper fares, in one sentence."""
    counts = Counter(each.outcome for each in judged)
    parts = [f"{counts[outcome]} {_WORDS[outcome]}" for outcome in OUTCOMES if counts[outcome]]
    names = ", ".join(collection.data_names)
    own = "" if count_measured(collection) else ", none on the paper's own features"
    return f"Of the paper's {len(judged)} claims, measured on {names}{own}: {', '.join(parts)}."


def count_measured(collection: Collection) -> int:
    """Return how many printed figures have runs on the features of the paper."""
    found = {}
    for data in collection.data_names:
        for run in collection.of_data(data):
            found.setdefault((data, run["model"]), []).append(run)
    return sum(
        any(compares(run, figure) for run in found.get((figure.data, figure.model), ()))
        for figure in PRINTED
    )


def describe_data(run: Record) -> str:
    """Return split, sizes and features of the data."""
    data = run["data"]
    sizes = data["n_samples"]
    return (
        f"{data['name']}, split {data['split']}: {sizes['train']} training samples of "
        f"{data['n_seen']} classes, {sizes['test_unseen']} test samples of {data['n_unseen']} "
        f"unseen classes (chance: {100 / max(1, data['n_unseen']):.1f} %). Features: "
        f"{describe_features(run)}, {data['n_features']} dimensions."
    )


def _describe_all(collection: Collection) -> list[str]:
    """Describe every data set, and name the paper's features where it has the same data."""
    texts = []
    for data in collection.data_names:
        runs = collection.of_data(data)
        text = describe_data(runs[0])
        run = collection.first("zero-shot", data, "BPL")
        metric = "hit@5" if data == "imnet" else "zsl"
        figure = find_printed(EXPERIMENTS["pure-zsl"].source, data, metric).get("BPL")
        if run and figure and not compares(run, figure):
            rest = "figures are not comparable; rankings may be."
            text = f"{text} The paper used {figure.features} features: {rest}"
        texts.append(text)
    return texts


def _name_quick_runs(collection: Collection) -> list[Text]:
    """Name the experiments with quick runs, by data set."""
    found: dict[str, list[str]] = {}
    for studies in collection.studies().values():
        for study in studies:
            if study.is_quick:
                found.setdefault(study.data, []).append(study.experiment.title)
    return [Text(f"Quick runs of {data}: {'; '.join(names)}.") for data, names in found.items()]


def claims_section(judged: Sequence[JudgedClaim]) -> Section:
    """Return the table of all claims."""
    rows = [
        [
            f"{each.number}. {each.claim.text}",
            f"{each.claim.source}: {each.claim.printed}",
            _format_ours(each),
            _format_verdicts(each),
        ]
        for each in judged
    ]
    headings = ["claim", "printed evidence", "ours", "verdict by reading"]
    blocks = [Text(_READINGS, is_dim=True), TableBlock(headings, rows)]
    return Section(f"The {len(judged)} claims of the paper", [Part("", blocks)])


def group_by_data(judged: JudgedClaim) -> dict[str, list[Judgment]]:
    """Return the verdicts on a claim by data set."""
    found: dict[str, list[Judgment]] = {}
    for judgment in judged.judgments:
        found.setdefault(judgment.data, []).append(judgment)
    return found


def _format_ours(judged: JudgedClaim) -> Cell:
    """Return the gist of the evidence of the first reading, a line per data set."""
    lines = []
    for data, judgments in group_by_data(judged).items():
        first = judgments[0].reading
        gists = {each.measure: each.finding.brief for each in judgments if each.reading == first}
        if len({str(gist) for gist in gists.values()}) == 1:
            gists = {"": next(iter(gists.values()))}
        cells = [join_cells([name, gist], " ") if name else gist for name, gist in gists.items()]
        text = join_cells(cells, "; ")
        lines.append(join_cells([f"{data}:", text], " "))
    return join_cells(lines, "\n") if lines else "no records"


def _format_verdicts(judged: JudgedClaim) -> str:
    """Return the verdicts, a line per data set; what all readings or measures share, once."""
    lines = []
    for data, judgments in group_by_data(judged).items():
        readings: dict[str, dict[str, str]] = {}
        for each in judgments:
            readings.setdefault(each.reading, {})[each.measure] = each.finding.verdict
        texts = {reading: _join_equal(found, ", ") for reading, found in readings.items()}
        quick = ", quick runs" if any(each.is_quick for each in judgments) else ""
        lines.append(f"{data}{quick}: {_join_equal(texts, '; ')}")
    return "\n".join(lines) or NOT_JUDGED


def _join_equal(texts: dict[str, str], separator: str) -> str:
    """Return texts with the names they hold for; without names if they are all the same."""
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(text, []).append(name)
    if len(names) == 1:
        return next(iter(names))
    return separator.join(f"{' and '.join(of)}: {text}" for text, of in names.items())
