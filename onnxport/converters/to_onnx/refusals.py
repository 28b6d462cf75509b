"""What an exporter refused: collected while it goes on, raised as one error."""

from __future__ import annotations

from collections.abc import Iterable

from onnxport.errors import Unsupported, UnsupportedOperator


class Refusals:
    """The operators of one model that have no ONNX form; `subject` is what a mapping is of, as a refusal's way out shows it.

    >>> refusals = Refusals("tensorflow")
    >>> refusals.add("Foo", "Foo: no form", "model.py:3")
    >>> refusals.since(0)[0].reason
    'no form'
    """

    def __init__(self, framework: str, subject: str = "<operator>") -> None:
        self._framework = framework
        self._subject = subject
        self._items: list[Unsupported] = []

    def __len__(self) -> int:
        return len(self._items)

    def add(self, operator: str, reason: str = "", where: str = "") -> None:
        """Records an operator; a reason that begins with its name is stored without it."""
        self._items.append(Unsupported(self._framework, operator, reason.removeprefix(f"{operator}: "), where))

    def extend(self, items: Iterable[Unsupported]) -> None:
        """Records refusals of another origin."""
        self._items.extend(items)

    def since(self, count: int) -> list[Unsupported]:
        """All but the first `count`."""
        return self._items[count:]

    def forget_since(self, count: int) -> None:
        """Drops all but the first `count`: what they were refused for is written in another way."""
        del self._items[count:]

    def raise_all(self) -> None:
        """Raises one error for all of them.

        Raises:
            UnsupportedOperator: there is at least one.
        """
        if self._items:
            mapping = f"add a mapping with onnxport.register_to_onnx('{self._framework}', '{self._subject}')"
            raise UnsupportedOperator.of(self._items, mapping=mapping)
