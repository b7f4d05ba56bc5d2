"""The report as a page and as Markdown: complete, escaped, self-contained, the same every time."""

import base64
import io
import re
import shutil
from collections import Counter
from itertools import count

import pytest
from made_up_records import SKILL, MadeUp
from PIL import Image

from zonkey_lab.paper.experiments import EXPERIMENTS
from zonkey_lab.paper.printed import PRINTED
from zonkey_lab.paper.report import blocks
from zonkey_lab.paper.report.blocks import (
    Code,
    Document,
    Part,
    Section,
    TableBlock,
    Text,
    html_text,
    markdown_text,
    write_markdown,
    write_report,
)
from zonkey_lab.paper.report.claims import CLAIMS, OUTCOMES, judge
from zonkey_lab.paper.report.collection import read_collection
from zonkey_lab.paper.report.sections import build_report
from zonkey_lab.paper.report.summary import count_measured, headline

ZERO_SHOT_TABLES = ("pure-zsl", "generalized-zsl", "ablation", "alternatives")


SIZES = count(1)


def draw_nothing(figure):
    """Return files of a figure that differ from all others, in no time; figures have own tests."""
    buffer = io.BytesIO()
    Image.new("RGB", (next(SIZES), 1)).save(buffer, "PNG")
    return {"png": buffer.getvalue(), "svg": b"<svg/>"}


@pytest.fixture(scope="module")
def folder(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    shutil.copytree(made.records.folder, folder / "runs")
    emoji = MadeUp(folder / "runs", "emoji", seed=1)
    for model in ("RPL", "BPL0", "BPL1", "BPL"):
        emoji.zero_shot(model, SKILL[model])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "file_bytes", draw_nothing)
        write_report(build_report(read_collection(folder / "runs")), folder / "out")
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "out" / "index.html").read_text("utf-8")


@pytest.fixture(scope="module")
def markdown(folder):
    return (folder / "out" / "tables.md").read_text("utf-8")


def test_page_figures_and_tables_are_written_and_nothing_else(folder):
    out = folder / "out"
    assert {path.name for path in out.iterdir()} == {"index.html", "tables.md", "figures"}
    names = {f"{name}-cub" for name in EXPERIMENTS}
    names |= {f"{name}-emoji" for name in ZERO_SHOT_TABLES}
    names |= {f"pure-zsl-{data}-confusions" for data in ("cub", "emoji")}
    expected = {f"{name}.{ending}" for name in names for ending in ("png", "svg")}
    assert {path.name for path in (out / "figures").iterdir()} == expected


def test_pictures_in_the_page_are_the_files_beside_it(folder, page):
    inside = {
        base64.b64decode(code)
        for code in re.findall(r'src="?data:image/png;base64,([^" >]*)', page)
    }
    beside = {path.read_bytes() for path in (folder / "out" / "figures").glob("*.png")}
    assert inside == beside


def test_the_page_opens_without_errors_in_a_browser(folder, open_in_browser):
    assert "The 39 claims of the paper" in open_in_browser(folder / "out" / "index.html")


# The first screen


def table_of_claims(markdown):
    """Return the cells of the table of claims, by row."""
    start = markdown.index("| claim | printed evidence | ours | verdict by reading |")
    lines = markdown[start : markdown.index("\n\n", start)].splitlines()
    return [re.split(r"(?<!\\) ?\| ?", line)[1:-1] for line in lines[2:]]


def test_the_page_opens_with_what_was_done_and_ends_with_rules(markdown):
    titles = re.findall(r"^## (.*)$", markdown, flags=re.M)
    assert titles == [
        "In short", "The 39 claims of the paper", "One picture per table", "Evidence",
        "Tables of every experiment", "How the runs were made", "Rules",
    ]  # fmt: skip
    opening = markdown[: markdown.index("## The 39 claims")]
    n_printed = sum(figure.data != "mini-imagenet-cnn" for figure in PRINTED)  # each once
    assert f"**Of the {n_printed} figures in the paper's tables, 0 are measured here" in opening
    assert "zonkey bench all --data awa1 cub sun" in opening
    assert "Data cub: split made up: 90 training samples of 9 classes" in opening


def test_every_claim_has_one_row_of_four_cells(markdown):
    rows = table_of_claims(markdown)
    assert [row[0].split(". ")[0] for row in rows] == [str(i) for i in range(1, len(CLAIMS) + 1)]
    assert {len(row) for row in rows} == {4}
    assert all(all(row) for row in rows)


def test_readings_measures_and_data_sets_are_cells_of_a_row(tmp_path):
    skills = {"BPL0": 0.5, "BPL1": 0.3, "BPL": 0.6, "BPL1, unscaled": 0.8, "BPL, unscaled": 0.95}
    for data in ("cub", "emoji"):
        made = MadeUp(tmp_path, data)
        for model, skill in skills.items():
            made.zero_shot(model, skill, acc_s=None)
    made.convergence()
    made.convergence([0.5, 0.2, 0.1, 0.05, 0.04, 0.03], model="BPL, unscaled")
    made.top = {"quick": True}
    for model, shift in {"BPL (SFSP1)": 0.0, "NN": 0.1}.items():
        made.hits(model, [[0.5 + shift], [0.6 + shift]], [1])
        made.trials(model, 0, 1, [0.5 + shift, 0.6 + shift])
    collection = read_collection(tmp_path)
    rows = table_of_claims(markdown_text(build_report(collection)))
    found = {row[0].split(". ")[1]: row[2:] for row in rows}
    reading = "printed scaling: not reproduced; unscaled: reproduced"
    ours, verdict = found["Synthesis contributes: BPL1 is better than BPL0"]
    assert verdict == f"cub: {reading}<br>{reading}"  # emoji has more verdicts
    assert re.fullmatch(r"cub: \S20.0 .*<br>\S20.0 .*", ours)
    text = "Algorithm 1 converges within 5 steps"
    by_w = "printed scaling: W: reproduced, objective: not reproduced"
    assert found[text][1] == f"{by_w}; unscaled: not reproduced"
    assert found["At scale: BPL is better than nearest neighbor"][1].endswith(" (quick runs)")
    ours, _ = found["At scale: BPL is better than nearest neighbor"]
    assert ours.count("hit@1") == ours.count("hit@5") == 0  # both are the same
    ours, _ = found["In trials: BPL is better than nearest neighbor"]
    assert re.match(r"1-shot: \S10.0 ", ours)  # there are no trials of five shots
    needs = "needs the paper's features"
    assert found["The printed figures of BPL, to a point"] == [needs, "not judged"]


def test_the_headline_counts_the_claims_by_outcome(collection):
    judged = judge(collection)
    counts = Counter(each.outcome for each in judged)
    text = headline(collection, judged)
    assert text.startswith(
        "Measured on cub, none of it with the paper's own features: of the paper"
    )
    found = [int(number) for number in re.findall(r"\d+", text)]
    assert found == [39, *(counts[outcome] for outcome in OUTCOMES)]
    assert sum(found[1:]) == found[0]


def test_figures_on_the_papers_features_are_counted(tmp_path):
    made = MadeUp(tmp_path, "cub", "res101.mat", split_version="v1")
    for model in ("BPL", "SAE", "RPL"):
        made.zero_shot(model, 0.5)
    collection = read_collection(tmp_path)
    printed = [f for f in PRINTED if f.data == "cub" and f.model in ("BPL", "SAE")]
    assert count_measured(collection) == len(printed) == 5 + 4
    made.selection("selection", "DAP")  # which measures nothing
    made.zero_shot("CMT", 0.5, acc_s=None, acc_u=None, hm=None)
    assert count_measured(read_collection(tmp_path)) == 5 + 4 + 1
    assert "own features" not in headline(collection, judge(collection))


def test_pictures_are_files_beside_markdown_and_small(tmp_path):
    made = MadeUp(tmp_path / "runs")
    for model, skill in SKILL.items():
        made.zero_shot(model, skill)
    first, *pictures = write_markdown(
        build_report(read_collection(tmp_path / "runs")), tmp_path / "docs.md"
    )
    names = ("pure-zsl", "generalized-zsl", "ablation", "alternatives")
    assert first == tmp_path / "docs.md"
    assert pictures == [tmp_path / "images" / f"docs-{name}-cub.png" for name in names]
    text = first.read_text("utf-8")
    for path in pictures:
        assert f"](images/{path.name})" in text
        assert 1_000 < path.stat().st_size < 60_000
        with Image.open(path) as image:
            assert image.width > 400
    before = [path.read_bytes() for path in pictures]
    write_markdown(build_report(read_collection(tmp_path / "runs")), tmp_path / "docs.md")
    assert [path.read_bytes() for path in pictures] == before


# Markdown


def test_markdown_has_no_cost_of_runs_which_is_on_the_page(page, markdown):
    assert not re.search(r"numpy|cores|wall time|321 MB", markdown)
    assert re.search(r"numpy.*cores|cores.*numpy", page, flags=re.S)
    assert "321 MB" in page


def test_details_are_folded(page, markdown):
    for text in (page, markdown):
        for title in ("Zero-shot learning, cub (Table pzsl", "Chosen parameters, cub",
                      "Evidence for each reading, emoji"):  # fmt: skip
            assert text.count(f"<details><summary>{title}") == 1
        assert text.count("<details>") == text.count("</details>")
    title = "Accuracy of all 5 classes (BPL, seed 0)"
    assert page.count(f"<summary>{title}</summary>") == 2
    assert title not in markdown
    assert "best class" in page
    assert "best class" not in markdown
    assert "| ---: |" in markdown


def test_intervals_have_more_digits_on_the_page_than_in_markdown(page, markdown):
    number = r"[+\N{MINUS SIGN}]\d+\.\d"
    fine, coarse = (rf"\[{number}{more}, {number}{more}\]" for more in (r"\d", r"(?!\d)"))
    plain = markdown.replace("\\", "")
    assert re.search(fine, page)
    assert re.search(coarse, plain)
    assert not re.search(fine, plain)


@pytest.mark.parametrize("quick", [True, False])
def test_quick_experiments_have_a_banner_on_the_page_and_in_markdown(tmp_path, quick):
    for data in ("cub", "emoji"):
        made = MadeUp(tmp_path / "runs", data)
        for model in ("BPL0", "BPL"):
            made.zero_shot(model, 0.5)
        made.top = {"quick": quick and data == "emoji"}
        for model in ("BPL0", "BPL"):
            made.map(model)
    report = build_report(read_collection(tmp_path / "runs"))
    page = html_text(report, {figure.name: b"" for figure in report.drawings()})
    markdown = markdown_text(report)
    text = "Quick runs: few seeds, folds and trials; a look, not figures to cite."
    expected = 1 if quick else 0  # in the section of maps, for emoji
    assert page.count(f"<p class=banner>{text}</p>") == expected
    assert markdown.count(f"**{text}**") == expected
    part = markdown[markdown.index("Maps of unseen classes, emoji") :]
    assert (text in part[: part.index("</details>")]) == quick
    assert ("Quick runs of emoji: Maps of unseen classes." in markdown) == quick


def test_markdown_is_the_same_again_whatever_the_times_and_the_order(folder, markdown, tmp_path):
    for path in sorted(folder.glob("runs/*/*/*.json"), reverse=True):
        copy = tmp_path / path.relative_to(folder / "runs")
        copy.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_text("utf-8").replace('"seconds": 1.25', '"seconds": 77.5')
        copy.write_text(content.replace("321.0", "999.0"), encoding="utf-8")
    assert markdown_text(build_report(read_collection(tmp_path)), "figures/") == markdown


def test_tables_of_markdown_have_equally_many_cells_in_each_row(markdown):
    tables = re.findall(r"(?:^\|.*\n)+", markdown, flags=re.M)
    assert len(tables) > 20
    for table in tables:
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1, table


def test_markdown_escapes_what_would_be_markup():
    table = TableBlock(["a|b", "n"], [["*x* <b>_y_", "1"]], "Caption", range(1, 2))
    shown = [Text("[a](b) `c`\n# d"), Code("<x> | *"), table]
    hidden = TableBlock(["t"], [["9 s"]], is_page_only=True)
    folded = Part("<P>", [TableBlock(["c"], [["a\n*b*"]], remarks=["r_1"])], is_folded=True)
    report = Document("T", [Section("S", [Part("P", [*shown, hidden]), folded], "note")])
    assert markdown_text(report) == (
        "# T\n\n## S\n\nnote\n\n### P\n\n"
        "\\[a\\](b) \\`c\\` \\# d\n\n"
        "```\n<x> | *\n```\n\n"
        "Caption:\n\n| a\\|b | n |\n| --- | ---: |\n| \\*x\\* \\<b\\>\\_y\\_ | 1 |\n\n"
        "<details><summary>&lt;P&gt;</summary>\n\n"
        "| c |\n| --- |\n| a<br>\\*b\\* |\n\nr\\_1\n\n</details>\n"
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a & b &lt;", r"a \& b \&lt;"),
        ("~~a~~ $x$", r"\~\~a\~\~ \$x\$"),
        ("[1, 2]", r"\[1, 2\]"),
        ("- a", r"\- a"),
        ("+ a", r"\+ a"),
        ("1. a", r"1\. a"),
        ("12) a", r"12\) a"),
        ("---", r"\---"),
        ("-1.5 to +2", "-1.5 to +2"),
        ("1.5 points", "1.5 points"),
        ("a - b", "a - b"),
    ],
)
def test_text_is_neither_list_nor_formula_nor_entity_in_markdown(text, written):
    report = Document("T", [Section("S", [Part("P", [Text(text)])])])
    assert markdown_text(report) == f"# T\n\n## S\n\n### P\n\n{written}\n"
