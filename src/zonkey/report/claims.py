"""The claims of the paper, as data."""

from __future__ import annotations

from dataclasses import dataclass

from .rules import (
    Test,
    better_in_trials,
    better_with_shots,
    better_zero_shot,
    converges,
    grows_with_shots,
    near_the_printed_figure,
    one_shot_helps,
)

_OURS = "BPL (SFSP1)"
_MARGIN = 0.005  # the paper's own two figures differ by a fifth of this


@dataclass(frozen=True)
class Claim:
    """What the paper says, and how records decide.

    Attributes
    ----------
    text : str
        With fields in braces for what records tell: `Finding.facts`.
    source : str
        Table or figure of the paper.
    test : callable
        Takes the records and a data set; None where they have nothing to say.
    """

    text: str
    source: str
    test: Test


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "Competition contributes: BPL is better than BPL1",
        "Fig. comp",
        better_zero_shot("BPL", "BPL1"),
    ),
    Claim(
        "Synthesis contributes: BPL1 is better than BPL0",
        "Fig. comp",
        better_zero_shot("BPL1", "BPL0"),
    ),
    Claim(
        "Both directions contribute: BPL0 is better than RPL",
        "Fig. comp",
        better_zero_shot("BPL0", "RPL"),
    ),
    Claim(
        "Both directions contribute: BPL0 is better than FPL",
        "Fig. comp",
        better_zero_shot("BPL0", "FPL"),
    ),
    Claim(
        "All components together: BPL is better than BPL0",
        "Fig. comp",
        better_zero_shot("BPL", "BPL0"),
    ),
    Claim(
        "Competition is better than no handling of ambiguity",
        "Table gradopt",
        better_zero_shot("BPL", "without ambiguity handling"),
    ),
    Claim(
        "Competition is better than minimum entropy",
        "Table gradopt",
        better_zero_shot("BPL", "minimum entropy"),
    ),
    Claim(
        "Accuracy of BPL, to a point",
        "Table pzsl",
        near_the_printed_figure("zsl", "pure-zsl"),
    ),
    Claim(
        "Harmonic mean of BPL, to a point",
        "Table gsrl",
        near_the_printed_figure("hm", "generalized-zsl"),
    ),
    Claim(
        "Synthesis from shots (SFSP1) is not worse than from base samples (SFSP2), to half a point",
        "Table datagen",
        better_with_shots(_OURS, "BPL (SFSP2)", _MARGIN),
    ),
    Claim(
        "BPL is better than nearest neighbor, all novel classes at once",
        "Fig. metafsl1",
        better_with_shots(_OURS, "NN"),
    ),
    Claim(
        "Base classes help: BPL is better than BPL (novel), all novel classes at once",
        "Fig. metafsl1",
        better_with_shots(_OURS, "BPL (novel)"),
    ),
    Claim("More shots give better results", "Fig. metafsl1", grows_with_shots(_OURS)),
    Claim("One shot is better than none", "Fig. metafsl1", one_shot_helps(_OURS)),
    *(
        Claim(
            f"BPL is better than {name} in {{n_way}}-way trials, {{n_shot}}-shot",
            "Table metafsl",
            better_in_trials(_OURS, model, n_shot),
        )
        for n_shot in (1, 5)
        for model, name in (("NN", "nearest neighbor"), ("BPL (novel)", "BPL (novel)"))
    ),
    Claim(
        "Algorithm 1 converges within 5 steps (W changes by less than 1 %)",
        "Algorithm 1",
        converges,
    ),
)
