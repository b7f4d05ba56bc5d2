"""Tests of the scripts in tools/ and of facts that several project files repeat."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
import yaml

import check_docstrings
import structure
from zonkey.metrics import per_class_accuracy

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "packages/zonkey/pyproject.toml").read_text("utf-8"))["project"]


def test_public_objects_include_functions_methods_and_properties():
    found = check_docstrings.public_objects("zonkey.metrics")
    assert found["zonkey.metrics.accuracy.per_class_accuracy"] is per_class_accuracy
    assert not any(part.startswith("_") for path in found for part in path.split("."))
    assert "zonkey.bpl.moments.Moments.update" in check_docstrings.public_objects("zonkey")


def test_an_incomplete_docstring_is_listed(monkeypatch):
    monkeypatch.setattr(per_class_accuracy, "__doc__", "no capital letter and no parameters")
    codes = {
        line.split()[0]
        for line in check_docstrings.violations(
            "zonkey.metrics.accuracy.per_class_accuracy", per_class_accuracy
        )
    }
    assert {"SS02", "SS03", "PR01", "RT01"} <= codes
    assert not codes & (check_docstrings.IGNORED | check_docstrings.CLASSES_ONLY)


def test_files_passed_are_those_that_execute():
    passed = structure.files_passed(lambda: per_class_accuracy([0, 1], [0, 1]))
    assert "metrics/accuracy.py" in passed
    assert not any(name.startswith("estimators") for name in passed)


def test_algorithm_1_is_found():
    assert structure.loops_of_algorithm_1() == ["bpl/algorithm1.py: learn"]


@pytest.fixture(scope="module")
def rows():
    return {row.measured.strip(): row for row in structure.measure_structure()}


def test_call_paths_stay_short(rows):
    assert not [name for name, row in rows.items() if "passes through" in name and row.is_over]


def test_modules_that_import_each_other_are_one_cycle():
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    groups = structure._find_components(edges)
    assert sorted(map(sorted, groups)) == [["a"], ["b", "c"], ["d"]]


def test_names_that_are_private_are_found():
    tree = ast.parse("_A = 1\nclass B:\n    def _c(self):\n        self._d = __e = 2\n")
    assert structure._private_names(tree) == {"_A", "_c", "_d"}


def test_ci_covers_the_python_versions_of_the_classifiers():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8"))
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    versions = [found.rpartition(" ")[2] for found in PROJECT["classifiers"] if ":: 3." in found]
    assert matrix["python"] == versions
    assert PROJECT["requires-python"] == f">={versions[0]}"


@pytest.mark.parametrize(
    "name",
    [
        "packages/zonkey/pyproject.toml",
        "packages/zonkey-lab/pyproject.toml",
        "CITATION.cff",
        "SECURITY.md",
        ".github/ISSUE_TEMPLATE/config.yml",
    ],
)
def test_project_files_name_the_same_repository(name):
    addresses = re.findall(r"https://github\.com/[\w-]+/[\w-]+", (ROOT / name).read_text("utf-8"))
    assert set(addresses) == {PROJECT["urls"]["Homepage"]}


def test_citation_and_package_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
