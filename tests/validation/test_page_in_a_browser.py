"""The pages of a report and of many models in Chromium, at three widths, light and dark: nothing falls off, all text can be read.

Pictures are kept in the folder that ONNXPORT_PICTURES names, for those who look at them.
"""

import html
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace

import onnx
import pytest

import onnxport
from onnxport.validation.matrix import read_entries
from onnxport.validation.matrix_html import write_matrix
from onnxport.validation.records import WitnessRecord
from onnxport.validation.report import write_pages

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")

WIDTHS = (390, 1024, 1600)
TEXT = """<ir_version: 8, opset_import: ["": 17]>
net (float[batch,3] x) => (float[batch,4] scores, int64[batch] best) <float[3,4] w = {1,2,3,4,5,6,7,8,9,1,2,3}> {
  h = MatMul(x, w) scores = %s(h) best = ArgMax<axis = 1, keepdims = 0>(scores) }"""
# Contrast as WCAG 2.2 defines it, of every element that holds text itself, against what lies behind it.
MEASURE = """
function numbers(color) { return color.match(/[0-9.]+/g).map(Number); }
function light([r, g, b]) {
  const part = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
}
function behind(node, view) {
  for (; node; node = node.parentElement) {
    const back = numbers(view.getComputedStyle(node).backgroundColor);
    if (back.length < 4 || back[3] > 0) return back;
  }
  return [255, 255, 255];
}
function measured(frame) {
  const view = frame.contentWindow, page = frame.contentDocument, root = page.documentElement;
  for (const part of page.querySelectorAll("details")) part.open = true;
  let least = 99, small = 99, where = "";
  for (const node of page.querySelectorAll("body *")) {
    if (![...node.childNodes].some(item => item.nodeType === 3 && item.textContent.trim())) continue;
    const style = view.getComputedStyle(node), box = node.getBoundingClientRect();
    if (!box.width || !box.height || box.width < 2) continue;
    const [a, b] = [light(numbers(style.color)), light(behind(node, view))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least) { least = ratio; where = node.outerHTML.slice(0, 60); }
    small = Math.min(small, parseFloat(style.fontSize));
  }
  const cut = [...page.querySelectorAll(".wide")].filter(item => item.scrollWidth > item.clientWidth + 1);
  const loose = [...page.querySelectorAll("td")].filter(item => item.childNodes.length > 1);
  const head = page.querySelector("thead").getBoundingClientRect();
  // Drawings need 3 : 1 where they carry what is shown.
  let faint = 99;
  for (const node of page.querySelectorAll(".plot svg :is(path, rect):not(.grid)")) {
    const style = view.getComputedStyle(node), color = style.stroke === "none" ? style.fill : style.stroke;
    const [a, b] = [light(numbers(color)), light(behind(node.closest("figure"), view))];
    faint = Math.min(faint, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const crossing = [...page.querySelectorAll(".axes > div")].filter(axis => {
    const boxes = [...axis.children].map(item => item.getBoundingClientRect());
    return boxes.some((a, i) => boxes.some((b, k) => i < k && meet(a, b)));
  });
  const levels = [...page.querySelectorAll("h1, h2, h3, h4, h5")].map(item => +item.tagName[1]);
  return {
    faint, crossing: crossing.length,
    broken: [...page.querySelectorAll(".n")].filter(item => item.getClientRects().length > 1).length,
    skipped: levels.filter((level, i) => i && level > levels[i - 1] + 1).length,
    plots: page.querySelectorAll("svg").length,
    mute: page.querySelectorAll("svg:not([role=img][aria-label])").length,
    over: root.scrollWidth - root.clientWidth, cut: cut.length, loose: loose.length, contrast: least, where, small,
    named: Math.min(...[...page.querySelectorAll(".matrix td:first-child")].map(item => item.getBoundingClientRect().width)),
    cards: head.height < 2,
    dark: light(numbers(view.getComputedStyle(page.body).backgroundColor)) < 0.2,
    order: [...page.querySelectorAll("h1, h2")].map(item => item.textContent.trim().slice(0, 20)),
  };
}
window.onload = () => {
  const frames = [...document.querySelectorAll("iframe")];
  document.body.innerHTML += "";
  const result = document.createElement("pre");
  result.id = "result";
  const again = [...document.querySelectorAll("iframe")];
  Promise.all(again.map(frame => new Promise(done => frame.addEventListener("load", done)))).then(() => {
    result.textContent = JSON.stringify(again.map(measured));
    document.body.append(result);
  });
};
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The page of a proof that fails, with witnesses, and the one of many models."""
    source, other = (onnx.parser.parse_model(TEXT % op) for op in ("Relu", "Sigmoid"))
    report = onnxport.validate(source, other, details=True)
    assert report.verdict == "failed"
    refusing = WitnessRecord("b", "Engine of another kind", "2.0", refused=f"no kernel for {'ArgMax' * 20}-13")
    report = replace(report, witnesses=(WitnessRecord("a", "Engine", "1.0", sets=report.sets), refusing))
    folder = tmp_path_factory.mktemp("page")
    report.to_html(
        folder / "one.html",
        command="onnxport validate a_rather_long_name_of_a_model.onnx another_one.onnx --html report.html",
    )
    (folder / "one.json").write_text(report.to_json())
    sides = {"pytorch": replace(report.converted, framework="pytorch", runtime="", opset=None)}
    sides |= {str(opset): replace(report.converted, opset=opset) for opset in (13, 21)}
    for name, side in sides.items():
        (folder / f"{name}.json").write_text(replace(report, converted=side, witnesses=()).to_json())
    (folder / "a_rather_long_name_of_a_model_that_is_not_converted.json").write_text(
        json.dumps({"error": {"type": "InvalidInputError", "message": "--opset is 99: 13 to 28"}})
    )
    write_matrix(folder / "matrix.html", read_entries(sorted(folder.glob("*.json"))))
    same = onnxport.validate(source, source, details=True)
    same.to_html(folder / "passed.html", command="onnxport convert net.onnx -o other.onnx --html passed.html")
    chance = onnx.parser.parse_model(CHANCE)
    unproved = onnxport.validate(chance, chance)
    assert (same.verdict, unproved.verdict) == ("passed", "unproved")
    unproved.to_html(folder / "unproved.html")
    legs = [("onnx to pytorch", same), ("pytorch to onnx", report), ("onnx to onnx", unproved)]
    write_pages(folder / "trip.html", legs, command="onnxport roundtrip net.onnx --through pytorch --html trip.html")
    wrong = onnxport.validate(*(onnx.parser.parse_model(long_net(factor)) for factor in (1, 2)), details=True)
    wrong.to_html(folder / "many.html")
    cells = "".join(f"<div>{item._repr_html_()}</div>" for item in (same, report, unproved))
    notebook = f"<!doctype html><html><head><style>{NOTEBOOK}</style></head><body>{cells}</body></html>"
    names = {
        "report": "one",
        "passed": "passed",
        "unproved": "unproved",
        "trip": "trip",
        "many": "many",
        "matrix": "matrix",
    }
    return {**{name: (folder / f"{file}.html").read_text() for name, file in names.items()}, "notebook": notebook}


def long_net(factor):
    """Five hundred layers and 24 outputs of long names, after a first layer that is `factor` times too large."""
    layers = [f"h{i + 1} = {('Tanh', 'Atan', 'Asinh')[i % 3]}(h{i})" for i in range(500)]
    heads = [f"an_output_of_a_long_name_that_is_number_{i}" for i in range(24)]
    ends = [f"{head} = Neg(h{i + 1})" for i, head in enumerate(heads)]
    outputs = ", ".join(f"float[batch,3] {head}" for head in heads)
    nodes = " ".join(["h0 = Mul(x, k)", *layers, *ends])
    return f"""<ir_version: 8, opset_import: ["": 17]> net (float[batch,3] x) => ({outputs}, float[batch,3] h500)
      <float k = {{{factor}}}> {{ {nodes} }}"""


CHANCE = """<ir_version: 8, opset_import: ["": 17]>
net (float[batch,3] x) => (float[batch,3] y) { y = RandomUniformLike(x) }"""
# A page that has a report in it, light or dark by itself.
NOTEBOOK = """body { font: 14px sans-serif; background: #fff; color: #000; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #eee; } }"""
# How many drawings a page has at least: the layers, and what differs of the outputs.
PLOTS = {"report": 5, "passed": 1, "trip": 6, "many": 20}
# The verdict, then what is wrong.
ORDER = {
    "report": ["failed", "First "],
    "matrix": ["failed", "What i"],
    "passed": ["passed"],
    "unproved": ["unprov"],
    "trip": ["failed"],
    "many": ["failed", "First ", "Output"],
    "notebook": [],
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_are_read_at_every_width(pages, tmp_path, scheme):
    shown = [(name, width) for name in pages for width in WIDTHS]
    frames = "".join(
        f'<iframe width="{width}" height="900" srcdoc="{html.escape(pages[name])}"></iframe>' for name, width in shown
    )
    (tmp_path / "frames.html").write_text(f"<!doctype html><body>{frames}<script>{MEASURE}</script></body>")
    results = measured(tmp_path, scheme)
    for (name, width), found in zip(shown, results, strict=True):
        assert found["over"] <= 0, (name, width, found)  # nothing falls off
        if name != "notebook":  # whose cells are scrolled
            assert found["cut"] == 0, (name, width, found)
            assert found["cards"] == (width < 700)
            assert name != "matrix" or found["named"] >= 180, found  # a model's name is read, not spelled
        assert found["loose"] == 0, (name, width, found)  # a cell is one thing beside its label
        assert found["contrast"] >= 4.5, (name, width, found)
        assert found["small"] >= 12, (name, width, found)
        assert found["faint"] >= 3, (name, width, found)
        assert (found["crossing"], found["broken"], found["skipped"], found["mute"]) == (0, 0, 0, 0), (
            name,
            width,
            found,
        )
        assert found["plots"] >= PLOTS.get(name, 0), (name, found)
        assert found["dark"] == (scheme == "dark")
        assert [text[:6] for text in found["order"]][: len(ORDER[name])] == ORDER[name], (name, found["order"])
    if os.environ.get("ONNXPORT_PICTURES"):
        for name, width in shown:
            (tmp_path / f"{name}.html").write_text(pages[name])
            picture = f"{os.environ['ONNXPORT_PICTURES']}/{name}-{width}-{scheme}.png"
            # A window is at least 500 pixels wide: what is narrower stands in a frame.
            frame = f'<body style="margin:0"><iframe src="{name}.html" style="border:0" width="{width}" height="4000">'
            (tmp_path / "framed.html").write_text(f"<!doctype html>{frame}</iframe>")
            browse(tmp_path, scheme, f"--window-size={max(width, 500)},4000", f"--screenshot={picture}", "framed.html")


# Clicks on the headings of the table of layers, by its keyboard's means, and notes what each gives.
PRESS = """
window.onload = () => {
  const table = document.querySelector("table.sortable"), notes = [];
  const column = i => [...table.tBodies[0].rows].map(row => row.cells[i].innerText.trim());
  const sorted = () => [...table.querySelectorAll("th")].map(head => head.getAttribute("aria-sort"));
  for (const place of PLACES) {
    const button = table.querySelectorAll("th button")[place];
    button.focus({focusVisible: true});
    const ring = getComputedStyle(button).outlineStyle, reached = document.activeElement === button;
    button.click();
    notes.push({column: column(place), sorted: sorted(), ring, reached, order: column(0)});
  }
  const result = document.createElement("pre");
  result.id = "result";
  result.textContent = JSON.stringify([...notes, table.caption.innerText]);
  document.body.append(result);
};
"""


@pytest.mark.parametrize("width", [390, 1024])
def test_the_table_of_layers_is_sorted_by_its_headings(pages, tmp_path, width):
    """The first press on a number brings the greatest to the top, the next the smallest; the keyboard reaches each."""
    script = PRESS.replace("PLACES", "[3, 3, 2, 0, 1]")
    (tmp_path / "frames.html").write_text(pages["report"].replace("</main>", f"</main><script>{script}</script>"))
    *notes, caption = measured(tmp_path, "light", f"--window-size={width},900")
    assert caption
    down, up, names, places, verdicts = notes
    assert len(down["column"]) == 3
    numbers = [float(text) for text in down["column"]]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] > numbers[-1]
    assert [float(text) for text in up["column"]] == numbers[::-1]
    assert names["column"] == sorted(names["column"])
    assert places["column"] == ["1", "2", "3"]
    assert verdicts["column"][0] == "FAIL"
    states = [note["sorted"] for note in notes]
    assert [[state for state in item if state] for item in states] == [
        [x] for x in ("descending", "ascending", "ascending", "ascending", "descending")
    ]
    assert [item.index(next(filter(None, item))) for item in states] == [3, 3, 2, 0, 1]
    assert all(note["reached"] and note["ring"] == "solid" for note in notes)


def test_many_reasons_are_folded(pages):
    """Three stand above the tables, the others are one click away."""
    box = '<div class="why fail"'
    shown, folded = re.split(r"<details><summary>\d+ other reasons</summary>", pages["many"])
    assert shown.count(box) == 3
    assert folded.partition("</details>")[0].count(box) == pages["many"].count(box) - 3 > 20
    # What is wider than the page is scrolled, by the keyboard too.
    assert re.findall(r"<pre(?! tabindex)", pages["many"] + pages["report"]) == []


def test_without_scripts_the_headings_are_words(pages):
    assert "<button" not in pages["report"].split("<script>")[0]
    assert pages["report"].count("<script>") == 1


def measured(folder, scheme, *options):
    """What the script measures of each frame."""
    dom = browse(folder, scheme, *options, "--virtual-time-budget=4000", "--dump-dom", "frames.html")
    match = re.search(r'<pre id="result">(.*?)</pre>', dom, re.DOTALL)
    assert match, dom[-500:]
    return json.loads(html.unescape(match[1]))


def browse(folder, scheme, *arguments):
    """What Chromium prints."""
    *options, name = arguments
    dark = "0" if scheme == "dark" else "1"
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
    ]
    command += [f"--blink-settings=preferredColorScheme={dark}", *options, (folder / name).as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
