"""Text falls into the sentences a reader would see."""

import unicodedata

import pytest

from monitor.scoring.sentences import split_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is open. It is free.", ("It is open.", "It is free.")),
        ("Dr. Lee met Mr. J. Park at 9 a.m. today.", ("Dr. Lee met Mr. J. Park at 9 a.m. today.",)),
        ("It costs 3.50 euros. Pay at www.example.org now.",
         ("It costs 3.50 euros.", "Pay at www.example.org now.")),
        ("Steps:\n1. Open it.\n2) Press the key\n- Wait",
         ("Steps:", "Open it.", "Press the key", "Wait")),
        ("**Bold** words. `code` too!", ("Bold words.", "code too!")),
        ("It is open.[1][2] It is free.[3]", ("It is open.[1][2]", "It is free.[3]")),
        ('He said "Stop!" Then he left.', ('He said "Stop!"', "Then he left.")),
        ("退款需要五天。请耐心等待！", ("退款需要五天。", "请耐心等待！")),
        ("...\n---\n \n", ()),
    ],
)  # fmt: skip
def test_sentences_are_split_when_text_has(text, expected):
    assert split_sentences(text) == expected


def test_sentences_are_equal_when_only_the_unicode_form_differs():
    text = "Le café a été rénové. Il est à côté!"
    assert split_sentences(unicodedata.normalize("NFD", text)) == split_sentences(text)
