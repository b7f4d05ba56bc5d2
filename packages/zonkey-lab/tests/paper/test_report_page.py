"""The report as a page and as Markdown: complete, escaped, self-contained, the same every time."""

import base64
import io
import re
import shutil
from itertools import count

import pytest
from made_up_records import SKILL, MadeUp
from PIL import Image

from zonkey_lab.paper.experiments import EXPERIMENTS
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
    write_report,
)
from zonkey_lab.paper.report.collection import read_collection
from zonkey_lab.paper.report.sections import build_report

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
    assert "What does not reproduce" in open_in_browser(folder / "out" / "index.html")


# Markdown


def test_markdown_has_no_times_and_no_memory_which_are_on_the_page(page, markdown):
    assert not re.search(r"\d s\b|\d MB|numpy|cores", markdown)
    assert markdown.count("Timings are on the page") == 1
    assert "Timings are on the page" not in page
    assert page.count("<td class=number>0.75 s</td>") == 1


def test_all_classes_are_folded_on_the_page_and_not_in_markdown(page, markdown):
    assert page.count("<details") == 2
    title = "Accuracy of all 5 classes (BPL, seed 0)"
    assert page.count(f"<summary>{title}</summary>") == 2
    assert title not in markdown
    assert "| best class | % | samples | worst class | % | samples |" in markdown
    assert "| --- | ---: | ---: | --- | ---: | ---: |" in markdown


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
    section = markdown[markdown.index("## Maps of unseen classes") :]
    assert (text in section[section.index("### emoji") :]) == quick
    assert ("Quick runs of emoji: Maps of unseen classes." in markdown) == quick


def test_markdown_is_the_same_again_whatever_the_times_and_the_order(folder, markdown, tmp_path):
    for path in sorted(folder.glob("runs/*/*/*.json"), reverse=True):
        copy = tmp_path / path.relative_to(folder / "runs")
        copy.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_text("utf-8").replace('"seconds": 1.25', '"seconds": 77.5')
        copy.write_text(content.replace("321.0", "999.0"), encoding="utf-8")
    assert markdown_text(build_report(read_collection(tmp_path))) == markdown


def test_tables_of_markdown_have_equally_many_cells_in_each_row(markdown):
    tables = re.findall(r"(?:^\|.*\n)+", markdown, flags=re.M)
    assert len(tables) > 40
    for table in tables:
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1, table


def test_markdown_escapes_what_would_be_markup():
    table = TableBlock(["a|b", "n"], [["*x* <b>_y_", "1"]], "Caption", range(1, 2))
    shown = [Text("[a](b) `c`\n# d"), Code("<x> | *"), table]
    hidden = TableBlock(["t"], [["9 s"]], is_page_only=True)
    report = Document("T", [Section("S", [Part("P", [*shown, hidden])], "note")])
    assert markdown_text(report) == (
        "# T\n\n## S\n\nnote\n\n### P\n\n"
        "\\[a\\](b) \\`c\\` \\# d\n\n"
        "```\n<x> | *\n```\n\n"
        "Caption:\n\n| a\\|b | n |\n| --- | ---: |\n| \\*x\\* \\<b\\>\\_y\\_ | 1 |\n"
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
