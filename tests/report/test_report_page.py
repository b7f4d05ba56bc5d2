"""The report as a page and as Markdown: complete, escaped, self-contained, the same every time."""

import base64
import re
from html import unescape
from html.parser import HTMLParser

import pytest
from made_up_records import NASTY, MadeUp

from zonkey.bench import EXPERIMENTS
from zonkey.report.blocks import Code, Part, Report, Section, Table, Text
from zonkey.report.collection import read_collection
from zonkey.report.markdown import markdown_text
from zonkey.report.page import write_report
from zonkey.report.sections import build_report


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    MadeUp(folder / "runs").everything()
    MadeUp(folder / "runs", "emoji", seed=1).everything()
    write_report(build_report(read_collection(folder / "runs")), folder / "out")
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return (folder / "out" / "index.html").read_text("utf-8")


@pytest.fixture(scope="module")
def markdown(folder):
    return (folder / "out" / "tables.md").read_text("utf-8")


class Loaded(HTMLParser):
    """Collect addresses, headings and the cells of tables."""

    def __init__(self, html):
        super().__init__()
        self.addresses, self.tags, self.texts = [], [], {}
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.addresses += [value for key, value in attributes if key in ("src", "href")]
        self.open = tag

    def handle_data(self, data):
        self.texts.setdefault(getattr(self, "open", ""), []).append(data)


def test_page_figures_and_tables_are_written_and_nothing_else(folder):
    out = folder / "out"
    assert {path.name for path in out.iterdir()} == {"index.html", "tables.md", "figures"}
    names = {f"{name}-{data}" for name in EXPERIMENTS for data in ("cub", "emoji")}
    names |= {f"pure-zsl-{data}-confusions" for data in ("cub", "emoji")}
    expected = {f"{name}.{ending}" for name in names for ending in ("png", "svg")}
    assert {path.name for path in (out / "figures").iterdir()} == expected


def test_the_page_loads_nothing_from_outside(page):
    found = Loaded(page)
    assert all(address.startswith(("#", "data:")) for address in found.addresses)
    assert not re.search(r"https?://|@import|url\(|<script|<iframe", page)


def test_pictures_in_the_page_are_the_files_beside_it(folder, page):
    pictures = [address for address in Loaded(page).addresses if "image/png" in address]
    inside = {base64.b64decode(address.split(",")[1]) for address in pictures}
    beside = {path.read_bytes() for path in (folder / "out" / "figures").glob("*.png")}
    assert inside == beside


def test_text_is_escaped_on_the_page(page):
    assert NASTY not in page
    assert "<b>" not in page
    assert NASTY in unescape(page)


def test_navigation_leads_to_the_summary_and_every_experiment(page):
    found = Loaded(page)
    headings = [unescape(text) for text in found.texts["h2"] if text.strip()]
    titles = [experiment.title for experiment in EXPERIMENTS.values()]
    assert headings == ["Summary", *titles]
    assert found.addresses.count("#s0") == 1
    assert {f"#s{i}" for i in range(len(headings))} <= set(found.addresses)


def test_the_page_names_commands_times_and_memory(page):
    assert "zonkey bench all --data emoji" in page
    assert "321 MB" in page
    assert "scikit-learn" in page


def test_the_page_opens_without_errors_in_a_browser(folder, open_in_browser):
    assert "What does not reproduce" in open_in_browser(folder / "out" / "index.html")


# Markdown


def test_markdown_has_no_times_and_no_memory_but_in_the_section_of_times(markdown):
    sections = re.split(r"^## ", markdown, flags=re.M)
    for section in sections:
        if not section.startswith(EXPERIMENTS["runtime"].title):
            assert not re.search(r"\d s\b|\d MB|numpy|cores", section)
    assert "0.75 s" in markdown


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
    table = Table(["a|b", "n"], [["*x* <b>_y_", "1"]], "Caption", range(1, 2))
    blocks = [Text("[a](b) `c`\n# d"), Code("<x> | *"), table]
    hidden = Table(["t"], [["9 s"]], changes_by_run=True)
    report = Report("T", [Section("S", [Part("P", [*blocks, hidden])], "note")])
    assert markdown_text(report) == (
        "# T\n\n## S\n\nnote\n\n### P\n\n"
        "[a]\\(b) \\`c\\` \\# d\n\n"
        "```\n<x> | *\n```\n\n"
        "Caption:\n\n| a\\|b | n |\n| --- | ---: |\n| \\*x\\* \\<b\\>\\_y\\_ | 1 |\n"
    )
