"""The evidence behind every verdict, and the rules in words."""

from __future__ import annotations

from collections.abc import Sequence

from .blocks import Cell, Part, Section, TableBlock, Text
from .claims import IN_PART, JudgedClaim
from .collection import Collection
from .rules import BALANCE, UNMOVED, Finding
from .summary import join_measures

RULES = (
    "Better: a model is better than another if the 95 % interval of their paired difference lies "
    "above 0, and worse if it lies below 0; otherwise the claim is undecided. Without shots, the "
    "difference is averaged over all seeds, and the interval is a bootstrap that resamples test "
    "samples and seeds, with unseen classes fixed. In trials, it is Student's interval over "
    "trials; with all novel classes at once, over draws of shots, averaged over K. Trained systems "
    "with several seeds: trials or draws are paired by their number after seeds are averaged, and "
    "Student's intervals over the means of the seeds are added in quadrature. Harmonic means: a "
    "normal interval by the numbers of test samples and the spread over seeds, not paired, hence "
    "wide.",
    "Better than several systems: reproduced if better than each of them, not reproduced if worse "
    "than at least one; otherwise, or if one is not measured, undecided. A trained system whose "
    "training stopped before the first step is left out, and counts as not measured.",
    f"Not judged: the data cannot show it. {100 * UNMOVED:.0f} % or more of the predictions of "
    "minimum entropy equal those of BPL0, from which it starts; nearest neighbor is not better "
    "with the features that should be stronger, in the same trials; nearest neighbor is weak in "
    "the paper because its network saw the base classes only, and these features are of another "
    "network; LSL and PPA are not timed in the published sizes; trials have other numbers of "
    "classes or shots than the paper's.",
    "Size of a gain: reproduced if the difference lies in the stated range and its interval above "
    "0; not reproduced if the interval lies outside the range; otherwise undecided.",
    "Balance: reproduced if, in every seed, the smaller of the accuracies on seen and unseen "
    f"classes is at least {100 * BALANCE:.0f} % of the larger; not reproduced if it is less in "
    "every seed; otherwise undecided.",
    "Maps: a number falls if it falls by more than 1 %, and rises if it rises by more than 1 %. "
    "Reproduced if it falls with every component (FPL and RPL to BPL0, to BPL1, to BPL), not "
    "reproduced if it rises with one, otherwise undecided. Compactness is the scatter of the "
    "features within predicted classes over that between them; centering is their mean squared "
    "distance from the projected prototype of the predicted class over that from their mean.",
    "Not worse, to a margin: reproduced if the interval lies above the negative margin, not "
    "reproduced if it lies below, otherwise undecided.",
    "More shots: reproduced if the interval from the fewest to the most shots lies above 0 and "
    "every step gains on average; not reproduced if the interval of the whole or of any step lies "
    "below 0; otherwise undecided. Larger lead with few shots: a model leads with the fewest "
    "shots, and this lead is larger than that with the most.",
    "Printed figures, on the paper's features only: reproduced if the mean over seeds is within 1 "
    "point; undecided if its 95 % interval is wider than 1 point to either side, or if there is "
    "one seed. In trials: reproduced if the mean is within 1 point, not reproduced if the whole "
    "interval is further away, otherwise undecided; the network is of the same kind, with other "
    "weights.",
    "Networks that fail at a large scale: the paper gives no figure; here, nearest neighbor is "
    "better than each of the trained systems, which are heads over the same frozen features.",
    "Faster: from base samples and the most shots to a fitted model; reproduced if it takes less "
    "than 90 % of the time of each other system, not reproduced if more than 110 % of one.",
    "Convergence within 5 steps. By W: step 5 and every later step change it by less than 1 %. By "
    "the objective: no later value differs from that at step 5 by 1 % of its fall up to there.",
    f"A claim with several readings, measures or data sets is {IN_PART} if some verdicts are "
    "reproduced and others are not. Otherwise the verdict of the claim is that of those that are "
    "decided. Intervals have 95 % each, without correction for multiple tests.",
)


def evidence_section(collection: Collection, judged: Sequence[JudgedClaim]) -> Section:
    """Return the evidence for each reading, folded."""
    parts = []
    for data in collection.data_names:
        rows = [row for each in judged for row in _rows(each, data)]
        if rows:
            table = TableBlock(["claim", "reading", "evidence"], rows)
            parts.append(Part(f"Evidence for each reading, {data}", [table], is_folded=True))
    return Section("Evidence", parts)


def _rows(judged: JudgedClaim, data: str) -> list[list[Cell]]:
    """Return the evidence that the table of claims has not; readings of the same evidence once."""
    found: dict[str, dict[str, Finding]] = {}
    for each in judged.judgments:
        if each.data == data:
            found.setdefault(each.reading, {})[each.measure] = each.finding
    names: dict[Cell, list[str]] = {}
    for i, (reading, measures) in enumerate(found.items()):
        if i or any(str(each.evidence) != str(each.brief) for each in measures.values()):
            evidence = {measure: each.evidence for measure, each in measures.items()}
            names.setdefault(join_measures(evidence, judged.claim), []).append(reading)
    return [[str(judged.number), "; ".join(of), text] for text, of in names.items()]


def rules_section() -> Section:
    """Return the rules that decide every verdict."""
    return Section("Rules", [Part("", [Text(rule, is_dim=True) for rule in RULES])])
