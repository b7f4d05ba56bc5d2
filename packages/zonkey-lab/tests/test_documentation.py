"""Pages and docstrings of the laboratory: examples run, the results are those of the runs."""

import doctest
import importlib
import pkgutil
import re
import shlex
from inspect import getdoc, signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import zonkey
import zonkey_lab.peers
from check_docstrings import failures
from zonkey.cli import app
from zonkey.files.emoji import load_emoji
from zonkey_lab.compare import systems
from zonkey_lab.paper.experiments import PICTURES
from zonkey_lab.paper.records import Records
from zonkey_lab.paper.report.blocks import markdown_text
from zonkey_lab.paper.report.claims import judge
from zonkey_lab.paper.report.collection import read_collection
from zonkey_lab.paper.report.sections import build_report
from zonkey_lab.paper.report.summary import headline

ROOT = Path(__file__).parents[3]
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(zonkey_lab.__path__, "zonkey_lab.")
)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_every_public_object_is_documented_by_the_rules_of_numpydoc():
    assert failures("zonkey_lab")[0] == {}


def test_docstrings_take_from_base_classes_what_they_lack():
    text = getdoc(zonkey_lab.peers.zsl.CMT)
    names = re.findall(r"^(\w+) : ", text.partition("Attributes\n---")[0], re.M)
    assert names == [*signature(zonkey_lab.peers.zsl.CMT).parameters]
    assert text.count("n_iter_ : int\n    Number of epochs.\n") == 1
    assert "`batch_size` is 256 and `learning_rate` is 0.001. The publication has no" in text
    assert text.index("weights_ : ") < text.index("n_iter_ : ") < text.index("n_features_in_ : ")


def test_the_examples_of_the_page_about_methods(capsys):
    text = (ROOT / "docs/methods.md").read_text("utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.S):
        exec(block, {})
    assert capsys.readouterr().out == "['zebra' 'whale']\n1.0\n"


def test_every_system_is_on_the_page_about_methods():
    page = (ROOT / "docs/methods.md").read_text("utf-8")
    names = {
        "BDCSPN": "BD-CSPN",
        "CADAVAE": "CADA-VAE",
        "DistributionCalibration": "Distribution calibration",
        "FCLSWGAN": "f-CLSWGAN",
        "GaussianDiscriminant": "GDA",
        "LPPlusPlus": "LP++",
        "MAPSSVM": "mAP-SSVM",
        "MatchingNetwork": "Matching Net",
        "MetaLearnerLSTM": "Meta-Learner LSTM",
        "PTMAP": "PT-MAP",
        "PrototypicalNetwork": "Prototypical Net",
        "RelationNetwork": "Relation Net",
        "SPAEN": "SP-AEN",
        "TFVAEGAN": "TF-VAEGAN",
        "TipAdapter": "Tip-Adapter",
    }
    names["ExemplarRegression"] = "Exemplar regression"
    few_shot = [name for name in zonkey.peers.fsl.__all__ if name != "BaseSamples"]
    for name in [*zonkey.peers.zsl.__all__, *few_shot]:
        assert f"**{names.get(name, name)}**" in page, name


def test_the_results_page_is_made_of_the_runs_beside_it():
    report = build_report(read_collection(ROOT / "docs" / "runs"))
    text = (ROOT / "docs" / "results.md").read_text("utf-8")
    assert markdown_text(report, "images/results-") == text, "stale: run `make results`"
    names = {f"results-{figure.name}.png" for figure in report.drawings() if figure.is_leading}
    assert {path.name for path in (ROOT / "docs" / "images").glob("results-*")} == names


def test_the_readme_says_in_one_line_how_the_paper_fares():
    collection = read_collection(ROOT / "docs" / "runs")
    line = headline(collection, judge(collection))
    for page in ("README.md", "docs/results.md"):
        assert line in " ".join((ROOT / page).read_text("utf-8").split()), page


def test_the_runs_of_the_results_page_are_of_the_embedded_data():
    known = {("emoji", load_emoji(split=split).sha256) for split in ("zero-shot", "few-shot")}
    known |= {("emoji-cnn", load_emoji(split="few-shot", features="simple-cnn").sha256)}
    records = list(Records(ROOT / "docs" / "runs"))
    used = {(record["data_name"], record["data"]["sha256"]) for record in records}
    drawn = {(name, file) for name, file in used if name == PICTURES}
    assert used - drawn == known
    assert len(drawn) <= 1  # all of one file


def write_animals(folder):
    """Write features of eight classes, prototypes, and samples without labels."""
    rng = np.random.default_rng(0)
    names = [f"animal {i}" for i in range(8)]
    known = pd.DataFrame(rng.uniform(size=(8, 4)), columns=["stripes", "mane", "ears", "size"])
    X = known.to_numpy().repeat(10, axis=0) @ rng.normal(size=(4, 8))
    known.insert(0, "class", names)
    known.to_csv(folder / "prototypes.csv", index=False)
    table = pd.DataFrame(X + rng.normal(size=X.shape) / 5, columns=[f"f{i}" for i in range(8)])
    table.iloc[:3].to_csv(folder / "new.csv", index=False)
    table.insert(0, "label", np.repeat(names, 10))
    table.to_csv(folder / "features.csv", index=False)


def test_examples_of_the_guide_to_comparisons(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_animals(tmp_path)
    usual = {**systems._USUAL, "zero-shot": ("nearest mean", "RPL", "BPL, as printed")}
    monkeypatch.setattr(systems, "_USUAL", usual)
    text = (ROOT / "docs/comparing.md").read_text("utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)
    lines = [line for kind, block in blocks if kind == "sh" for line in block.splitlines()]
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "zonkey"
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"{line}: {done.output}"
        if arguments[0] == "compare":
            assert "failed" not in done.stdout, done.stdout
    assert len(lines) == 7
    assert "Differences are paired" in Path("leaderboard.html").read_text("utf-8")
    names = {}
    for kind, block in blocks:
        if kind == "python":
            exec(block, names)
    assert 0.5 < names["accuracy"].value <= 1
    commands = [block for kind, block in blocks if kind == "text"]
    for line in commands[0].splitlines():
        assert CliRunner().invoke(app, [*shlex.split(line)[1:], "--help"]).exit_code == 0
