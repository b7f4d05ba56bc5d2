"""What a user can do who has zonkey without zonkey-lab: all but the paper's tables."""

import json
import subprocess
import sys
import textwrap

# Names of modules, and the entry points of the laboratory, are hidden as if not installed.
HIDE = """
import importlib.abc, importlib.metadata, sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "zonkey_lab":
            raise ModuleNotFoundError("No module named 'zonkey_lab'", name="zonkey_lab")

sys.meta_path.insert(0, Hidden())
found = importlib.metadata.entry_points
importlib.metadata.entry_points = lambda **asked: [
    point for point in found(**asked) if not point.value.startswith("zonkey_lab")
]
"""


def run_alone(code, *arguments):
    """Run code in a process that cannot import the laboratory; return what it printed as JSON."""
    command = [sys.executable, "-c", HIDE + textwrap.dedent(code), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_models_are_fitted_evaluated_explained_saved_and_demonstrated(tmp_path):
    code = """
    import json, sys
    from pathlib import Path
    import zonkey
    from zonkey.demo.features import synthesize_a_zebra
    from zonkey.evaluation import draw_trial
    from zonkey.testing import linear_problem
    p, path = linear_problem(), Path(sys.argv[1]) / "a.zonkey"
    model = zonkey.presets.recommended(p.prototypes, candidates="all").fit(p.X, p.y)
    figures = zonkey.evaluate(model, p.X_new, p.y_new).scores
    page = model.explain(p.X_new[0]).table()
    zonkey.save(model, path)
    same = bool((zonkey.load(path).predict(p.X_new) == model.predict(p.X_new)).all())
    zebra = synthesize_a_zebra()
    print(json.dumps([figures["accuracy_unseen"], len(page), same, zebra["label"]]))
    """
    accuracy, length, same, label = run_alone(code, str(tmp_path))
    assert accuracy > 0.9
    assert length > 100
    assert same
    assert label == "zebra"


def test_every_module_and_command_works_and_those_of_the_laboratory_say_what_is_missing(tmp_path):
    code = """
    import importlib, json, pkgutil
    from typer.testing import CliRunner
    import zonkey
    from zonkey.cli import app
    names = [m.name for m in pkgutil.walk_packages(zonkey.__path__, "zonkey.")]
    names = [name for name in names if name not in ("zonkey.peers", "zonkey.__main__")]
    for name in ["zonkey", *names]:
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            getattr(module, public)
    def call(*arguments):
        done = CliRunner().invoke(app, arguments)
        return [done.exit_code, done.output]
    called = [len(names), call("--help"), call("bench", "--help"), call("data", "list")]
    try:
        import zonkey.peers
    except ModuleNotFoundError as error:
        called.append([3, str(error)])
    print(json.dumps(called))
    """
    n_modules, shown, *missing = run_alone(code)
    assert n_modules > 80
    assert shown[0] == 0
    assert "predict" in shown[1]
    for code, text in missing:
        assert code
        assert "zonkey-lab" in text
