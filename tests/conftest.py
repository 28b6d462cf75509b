import json
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings
from typer.testing import CliRunner

settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a busy machine too
settings.load_profile("suite")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the command line in an empty directory: exit code, both outputs, and standard output as JSON where asked."""
    from onnxport.cli import console
    from onnxport.cli.main import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for written in (console.out, console.err):  # they took their width when the first test imported them
        monkeypatch.setattr(written, "width", 200)

    def call(*arguments):
        result = CliRunner().invoke(app, [str(item) for item in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        parsed = json.loads(result.stdout) if "--json" in arguments and result.stdout else None
        return SimpleNamespace(code=result.exit_code, out=result.stdout, err=result.stderr, json=parsed)

    return call


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a Python module of the user's into the working directory."""
    name = f"models_{abs(hash(str(tmp_path)))}"

    def write(source):
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        return name

    return write
