"""``python -m onnxport``: the command line."""

from onnxport.cli.main import main

main()
