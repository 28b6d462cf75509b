"""`onnxport view` with netron itself: its page in Chromium shows the graph, and serves the file with the verdicts.

Pictures are kept in the folder that ONNXPORT_PICTURES names, for those who look at them.
"""

import http.server
import os
import re
import subprocess
import threading
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.workbench import chromium
from tests.workbench.chromium import BROWSER

pytestmark = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")
NET = """<ir_version: 8, opset_import: ["": 17]> net (float[batch,3] x) => (float[batch,3] scores)
  <float[3,3] w = {1,2,3,4,5,6,7,8,9}> { [first] h = MatMul(x, w) [second] g = %s(h) [third] scores = Softmax(g) }"""


class Consent(http.server.BaseHTTPRequestHandler):
    """Leads to the page with the cookie that netron's own question for consent would leave."""

    target = ""

    def do_GET(self):
        self.send_response(302)
        self.send_header("Set-Cookie", "consent=1; path=/")
        self.send_header("Location", self.target)
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def address(run, tmp_path, monkeypatch):
    """Where the view of a file with a wrong node is, while netron serves it; and what the command printed."""
    netron = pytest.importorskip("netron", reason="netron is the extra view")
    for name, operator in (("right", "Relu"), ("wrong", "Neg")):
        onnx.save(onnx.parser.parse_model(NET % operator), tmp_path / f"{name}.onnx")
    np.savez(tmp_path / "x.npz", x=np.array([[1, 2, 3]], np.float32))
    monkeypatch.setattr(netron, "wait", lambda: None)
    done = run("view", "wrong.onnx", "--source", "right.onnx", "--inputs", "x.npz", "--no-browse", "--json")
    assert (done.code, done.err) == (0, "")
    yield done.json
    netron.stop()


@contextmanager
def consented(address):
    """Where a page is that leads to netron's with its question answered."""

    class Here(Consent):
        target = address

    with http.server.ThreadingHTTPServer(("localhost", 0), Here) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()


def shown(address, folder):
    """The page as Chromium has it, once the graph is drawn."""
    with consented(address) as entry:
        command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
        command += ["--virtual-time-budget=15000", "--dump-dom", entry]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    return done.stdout


def test_the_page_shows_the_graph_with_its_verdicts(address, tmp_path):
    assert address["nodes"] == {"agrees": 2, "differs": 1}
    assert address["differs"] == ["second"]
    page = shown(address["address"], tmp_path)
    assert set(re.findall(r'id="node-name-(\w+)"', page)) == {"first", "second", "third"}
    assert {"MatMul", "Neg", "Softmax", "differs"} <= set(re.findall(r">(\w+)</text>", page))
    with urllib.request.urlopen(f"{address['address']}/data/wrong.onnx") as served:
        graph = onnx.load_model_from_string(served.read()).graph
    *nodes, mark = graph.node
    assert (mark.name, mark.domain, mark.input, mark.output) == ("differs: second", "onnxport", ["g"], [])
    verdicts = {node.name: {item.key: item.value for item in node.metadata_props} for node in nodes}
    assert [verdicts[name]["onnxport.verdict"] for name in ("first", "second", "third")] == [
        "agrees",
        "differs",
        "agrees",
    ]
    # Relu gives 30, 36 and 42 of x @ w, Neg the same below zero.
    assert float(verdicts["second"]["own error"]) == 84


# Where the nodes of the graph and the buttons stand, and the grey value of what lies behind them.
STANDS = """(() => {
  const box = item => { const {left, right, top, bottom} = item.getBoundingClientRect(); return [left, top, right, bottom]; };
  const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).map(Number);
  return {nodes: [...document.querySelectorAll("[id^=node-name-]")].map(box), ground: (r + g + b) / 3,
          buttons: [...document.querySelectorAll("#toolbar button")].map(box),
          words: [...document.querySelectorAll("#toolbar button")].map(item => item.title || item.ariaLabel)};
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_drawn_at_every_width(address, tmp_path, scheme):
    with consented(address["address"]) as entry, chromium.page(tmp_path) as page:
        for width in (390, 1024, 1600):
            page.look(width, scheme)
            page.open(entry, "document.body.className === 'default' && !!document.getElementById('node-name-third')")
            page.picture(Path(os.environ.get("ONNXPORT_PICTURES") or tmp_path) / f"view-{width}-{scheme}.png")
            stands = page.evaluate(STANDS)
            assert len(stands["nodes"]) == 4  # one of ours hangs on the wrong one
            for left, top, right, bottom in [*stands["nodes"], *stands["buttons"]]:
                assert 0 <= left < right <= width, stands
                assert 0 <= top < bottom <= 900, stands
            assert stands["buttons"], stands
            assert stands["ground"] > 200 if scheme == "light" else stands["ground"] < 80
