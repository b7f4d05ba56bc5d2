"""The first screen: what was done, on which data, and the claims of the paper in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ..experiments import EXPERIMENTS
from ..printed import PRINTED, find_printed
from ..records import Record
from .blocks import Block, Cell, Code, Part, Rounded, Section, TableBlock, Text, join_cells
from .claims import OUTCOMES, Claim, JudgedClaim, Judgment
from .collection import Collection
from .rules import NOT_JUDGED
from .tables import compares, describe_features

# Each figure of the paper once: data sets of the simple CNN repeat a part of Table metafsl.
_FIGURES = tuple(figure for figure in PRINTED if not figure.data.endswith("-cnn"))
_WHAT = (
    "Implemented: competitive bidirectional projection learning with semantic feature synthesis "
    "(BPL), zero-shot and few-shot, its ablations and alternatives, the systems that the paper "
    "compares with, and its experiments. Test classes choose no parameters."
)
_OTHER_FEATURES = (
    "The files of the paper's benchmarks are too large to come with zonkey. With the res101 files "
    "of xlsa17 in the data folder, two commands measure its tables of AwA, which is awa1 (awa2 has "
    "other pictures), CUB and SUN:"
)
_OWN_FEATURES = "zonkey bench all --data awa1 cub sun --runs runs\nzonkey report --runs runs"
_READINGS = (
    "Rules at the end decide every verdict. Equations 1 and 19 can be read in several ways: the "
    "perturbation is divided by the squared norm of W (printed scaling) or is not (unscaled); "
    "few-shot episodes use all base samples or some (sampled base). A verdict without a reading "
    "holds for all. Ours: differences in points with 95 % intervals, for the printed scaling, on "
    "{data} unless another data set is named. Meta-learners are heads over frozen features. Bars, "
    "curves, maps, stated: the paper prints no number."
)


def opening_section(collection: Collection, judged: Sequence[JudgedClaim]) -> Section:
    """Return what was implemented, on which data, and how the paper fares."""
    n_measured = count_measured(collection)
    blocks: list[Block] = [Text(headline(collection, judged)), Text(_WHAT)]
    blocks += [Text(text) for text in _describe_all(collection)]
    paper = (
        f"Of the {len(_FIGURES)} figures in the paper's tables, {n_measured} are measured here on"
    )
    blocks += [Text(f"{paper} the paper's own features.", is_banner=True)]
    if n_measured < len(_FIGURES):
        blocks += [Text(_OTHER_FEATURES), Code(_OWN_FEATURES)]
    blocks += _name_quick_runs(collection)
    if collection.n_unfinished:
        text = f"{collection.n_unfinished} choices of parameters are unfinished, and left out."
        blocks.append(Text(text, is_dim=True))
    if collection.n_outdated:
        text = (
            f"{collection.n_outdated} measurements with other parameters than those chosen since "
            "are left out; the same commands measure again."
        )
        blocks.append(Text(text, is_dim=True))
    if collection.n_left_out:
        text = f"{collection.n_left_out} records with other settings than seed 0 are left out."
        blocks.append(Text(text, is_dim=True))
    return Section("In short", [Part("", blocks)])


def headline(collection: Collection, judged: Sequence[JudgedClaim]) -> str:
    """Return how the paper fares, in one sentence."""
    counts = Counter(each.outcome for each in judged)
    whole, partly, failed, open_, unjudged = (counts[outcome] for outcome in OUTCOMES)
    own = "" if count_measured(collection) else ", none of it with the paper's own features"
    used = {judgment.data for each in judged for judgment in each.judgments}
    return (
        f"Measured on {' and '.join(sorted(used)) or 'no data'}{own}: of the paper's {len(judged)} "
        f"claims, {whole} are reproduced, {partly} in part, {failed} are not, {open_} are "
        f"undecided, and the data cannot show {unjudged}."
    )


def count_measured(collection: Collection) -> int:
    """Return how many printed figures are measured on the features of the paper."""
    protocols = {each.source: each.protocols for each in EXPERIMENTS.values() if each.source}
    return sum(
        any(
            compares(run, figure) and figure.metric in run["results"]
            for protocol in protocols[figure.source]
            for run in collection.runs(protocol, figure.data, figure.model)
        )
        for figure in _FIGURES
    )


def describe_data(run: Record) -> str:
    """Return split and sizes of the data."""
    data = run["data"]
    sizes = data["n_samples"]
    return (
        f"split {data['split']}: {sizes['train']} training samples of {data['n_seen']} classes, "
        f"{sizes['test_unseen']} test samples of {data['n_unseen']} others (chance "
        f"{100 / max(1, data['n_unseen']):.1f} %)"
    )


def _describe_all(collection: Collection) -> list[str]:
    """Describe every data set, and name the paper's features where it has the same data."""
    texts = []
    for data in collection.data_names:
        runs = collection.of_data(data)
        splits = "; ".join(sorted({*map(describe_data, runs)}))
        features = f"{describe_features(runs[0])}, {runs[0]['data']['n_features']} dimensions"
        text = f"Data {data}: {splits}. Features: {features}."
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
    counts = Counter(judgment.data for each in judged for judgment in each.judgments)
    main = counts.most_common(1)[0][0] if counts else ""
    rows = [
        [
            f"{each.number}. {each.claim.text}",
            f"{each.claim.source}: {each.claim.printed}",
            _format_ours(each, main),
            _format_verdicts(each, main),
        ]
        for each in judged
    ]
    headings = ["claim", "printed evidence", "ours", "verdict by reading"]
    note = Text(_READINGS.format(data=main or "no data"), is_dim=True)
    blocks = [note, TableBlock(headings, rows)]
    return Section(f"The {len(judged)} claims of the paper", [Part("", blocks)])


def group_by_data(judged: JudgedClaim) -> dict[str, list[Judgment]]:
    """Return the verdicts on a claim by data set."""
    found: dict[str, list[Judgment]] = {}
    for judgment in judged.judgments:
        found.setdefault(judgment.data, []).append(judgment)
    return found


def _format_ours(judged: JudgedClaim, main: str) -> Cell:
    """Return the gist of the evidence of the first reading, a line per data set."""
    lines = []
    for data, judgments in group_by_data(judged).items():
        first = judgments[0].reading
        gists = {each.measure: each.finding.brief for each in judgments if each.reading == first}
        text = join_measures(gists, judged.claim)
        lines.append(text if data == main else join_cells([f"{data}:", text], " "))
    return join_cells(lines, "\n") if lines else f"needs {judged.claim.needs}"


def join_measures(cells: Mapping[str, Cell], claim: Claim) -> Rounded:
    """Return one cell of those of several measures, without names if all have the same."""
    if len({*cells.values()}) == 1 and len(cells) == len(claim.measures):
        return join_cells([*cells.values()][:1], "")
    named = [join_cells([name, cell], ": ") if name else cell for name, cell in cells.items()]
    return join_cells(named, "; ")


def _format_verdicts(judged: JudgedClaim, main: str) -> str:
    """Return the verdicts, a line per data set; what all readings or measures share, once."""
    lines = []
    for data, judgments in group_by_data(judged).items():
        readings: dict[str, dict[str, str]] = {}
        for each in judgments:
            readings.setdefault(each.reading, {})[each.measure] = each.finding.verdict
        texts = {reading: _join_equal(found, ", ") for reading, found in readings.items()}
        text = _join_equal(texts, "; ")
        text += " (quick runs)" if any(each.is_quick for each in judgments) else ""
        lines.append(text if data == main else f"{data}: {text}")
    return "\n".join(lines) or NOT_JUDGED


def _join_equal(texts: dict[str, str], separator: str) -> str:
    """Return texts with the names they hold for; without names if they are all the same."""
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(text, []).append(name)
    if len(names) == 1:
        return next(iter(names))
    return separator.join(f"{' and '.join(of)}: {text}" for text, of in names.items())
