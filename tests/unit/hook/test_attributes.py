"""Only what an object just has is read."""

import dataclasses
from collections import namedtuple

import pydantic
import pytest

from monitor.hook.capture import attribute, lookup


class Plain:
    text = "of the class"

    def __init__(self, text):
        self.text = text


class Slotted:
    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text


@dataclasses.dataclass
class Data:
    text: str


class Model(pydantic.BaseModel):
    text: str


Pair = namedtuple("Pair", "text score")  # noqa: PYI024  # the kind that Python makes itself


class Trap:
    """Whatever is read of it runs code."""

    @property
    def text(self):
        raise AssertionError

    def __getattr__(self, name):
        raise AssertionError

    def __getattribute__(self, name):
        raise AssertionError


class HiddenDict(Trap):
    """Its ``__dict__`` is a property too."""

    __dict__ = property(Trap.__getattr__)


@pytest.mark.parametrize(
    "holder", [Plain("a"), Slotted("a"), Data("a"), Model(text="a"), Pair("a", 1)]
)
def test_fields_of_every_kind_are_read(holder):
    assert attribute(holder, "text") == "a"


@pytest.mark.parametrize("kind", [Trap, HiddenDict, Slotted, object, int])
def test_attribute_lookup_runs_no_user_code(kind):
    assert lookup(kind.__new__(kind), ("text",)) is None


def test_class_attribute_is_read():
    assert attribute(Plain.__new__(Plain), "text") == "of the class"


def test_property_of_a_known_library_is_read():
    kind = type("Node", (), {"text": property(lambda _: "a"), "__module__": "llama_index.core"})
    other = type("Node", (), {"text": property(lambda _: "a"), "__module__": "llama_indexed"})
    assert (attribute(kind(), "text"), attribute(other(), "text")) == ("a", None)
