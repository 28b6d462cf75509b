"""Programs written for another converter, run with their import changed and nothing else."""

from textwrap import dedent


def run(program, old, new):
    """The names that the program leaves; `old`, a line of it, is replaced by `new`."""
    lines = dedent(program).strip().splitlines()
    assert [line.strip() for line in lines].count(old) == 1
    changed = [line.replace(old, new) if line.strip() == old else line for line in lines]
    assert sum(a != b for a, b in zip(lines, changed, strict=True)) == 1
    names = {"__name__": "program"}
    exec(compile("\n".join(changed), "program.py", "exec"), names)
    return names
