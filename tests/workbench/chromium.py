"""Chromium in a test, over its debugging pipe: a page as it becomes in real time, at a width, light or dark."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from contextlib import contextmanager

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
_SECONDS = 60  # until a page has to be there


class Page:
    """A tab; `call` gives what a method of the DevTools protocol answers."""

    def __init__(self, commands, answers):
        self._commands, self._answers, self._numbers, self._session = commands, answers, itertools.count(1), None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def call(self, method, **parameters):
        message = {"id": next(self._numbers), "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        self._commands.write(json.dumps(message).encode() + b"\0")
        self._commands.flush()
        while (answer := self._read()).get("id") != message["id"]:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def _read(self):
        text = b"".join(iter(lambda: self._answers.read(1), b"\0"))
        return json.loads(text)

    def look(self, width, scheme, height=900):
        """Sets the size of the page, and whether its reader prefers a light or a dark one."""
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **sizes)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def evaluate(self, script):
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def open(self, address, ready):
        """Goes to a page and waits until a script says that it is there."""
        self.call("Page.navigate", url=address)
        end = time.monotonic() + _SECONDS
        while not self.evaluate(ready):
            assert time.monotonic() < end, self.evaluate("document.body.outerHTML")
            time.sleep(0.1)

    def picture(self, file):
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def page(folder):
    """A tab of a browser that keeps its files in `folder`."""
    to_read, to_write = os.pipe(), os.pipe()  # Chromium reads its commands from 3 and answers on 4
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
    wired = f'exec "$0" "$@" 3<&{to_read[0]} 4>&{to_write[1]}'
    command = ["bash", "-c", wired, BROWSER, *options, f"--user-data-dir={folder / 'profile'}"]
    fds = (to_read[0], to_write[1])
    process = subprocess.Popen(command, pass_fds=fds, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for fd in fds:
        os.close(fd)
    with os.fdopen(to_read[1], "wb") as commands, os.fdopen(to_write[0], "rb") as answers:
        try:
            yield Page(commands, answers)
        finally:
            process.terminate()
            process.wait(30)
