"""Sentences of a text: the rule by hand, and texts of any size in linear time."""

import time

import pytest

from keras_attn.text import split_sentences
from keras_attn.text.sentences import ABBREVIATIONS


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        # The end of a sentence.
        ("It rains. I stay in.", ["It rains.", "I stay in."]),
        ("Really?! Yes!!! No?", ["Really?!", "Yes!!!", "No?"]),
        ("No end mark", ["No end mark"]),
        ("One. two three. 4 five.", ["One. two three.", "4 five."]),
        ("Ends without a space.Next one.", ["Ends without a space.Next one."]),
        ("A dog .  A cat .", ["A dog .", "A cat ."]),
        ("Она ушла. Он остался.", ["Она ушла.", "Он остался."]),
        # Dots.
        ("He left... 2 hours later", ["He left...", "2 hours later"]),
        ("He left... and came back.", ["He left... and came back."]),
        ("He left… She stayed.", ["He left…", "She stayed."]),
        # Abbreviations, initials, names with a period inside.
        ("Mr. Smith met Dr. Jones. They spoke.", ["Mr. Smith met Dr. Jones.", "They spoke."]),
        ("(Mr. Smith) “Mrs. Jones” „Dr. Weiß“", ["(Mr. Smith) “Mrs. Jones” „Dr. Weiß“"]),
        ("J. R. Smith came. É. Zola too.", ["J. R. Smith came.", "É. Zola too."]),
        ("The U.S. Senate met. It rose.", ["The U.S. Senate met.", "It rose."]),
        ("Fruit, e.g. Apples. Nuts, i.e. Walnuts.", ["Fruit, e.g. Apples.", "Nuts, i.e. Walnuts."]),
        ("Who is Mr. X? He is Dr. No!", ["Who is Mr. X?", "He is Dr. No!"]),
        # Two marks are no abbreviation.
        ("Ask the Dr.! He knows.", ["Ask the Dr.!", "He knows."]),
        # Numbers.
        ("It cost 3.50 euros. Yes.", ["It cost 3.50 euros.", "Yes."]),
        ("It was 1999. Then 2000 came.", ["It was 1999.", "Then 2000 came."]),
        # Quotation marks and brackets.
        ('He said "No!" Then he left.', ['He said "No!"', "Then he left."]),
        ("‘Go.’ “Stay.” (So.) [Yes.] End", ["‘Go.’", "“Stay.”", "(So.)", "[Yes.]", "End"]),
        ("„Gut.“ „Schön.“ Er ging.", ["„Gut.“", "„Schön.“", "Er ging."]),
        ("«Oui.» «Non.» ¿Qué? ¡No!", ["«Oui.»", "«Non.»", "¿Qué?", "¡No!"]),
        ('"Hi," she said. "you."', ['"Hi," she said. "you."']),
        # Lines.
        ("One\ntwo\r\nthree\rfour\u2028five", ["One", "two", "three", "four", "five"]),
        ("One<br /><br />two<BR>three<br/>4", ["One", "two", "three", "4"]),
        ("One <b>two</b>. Three <brown>", ["One <b>two</b>.", "Three <brown>"]),
        # Chinese and Japanese.
        ("你好。我很好！你呢？", ["你好。", "我很好！", "你呢？"]),
        ("“真的？”他说。（是。）好", ["“真的？”", "他说。", "（是。）", "好"]),
        ("「はい。」と言った。『そう！』", ["「はい。」", "と言った。", "『そう！』"]),
        (
            "Siehe hierzu: vgl. über das Haus. Élan. Ähnlich!",
            [
                "Siehe hierzu: vgl. über das Haus.",
                "Élan.",
                "Ähnlich!",
            ],
        ),
        ("Да. нет.", ["Да.", "нет."]),  # of Latin letters alone
        # No text.
        ("", []),
        (" \n\t \r\n\u3000", []),
        ("<br><br />", []),
        (" . ", ["."]),
        ("...", ["..."]),
    ],
)
def test_by_hand(text, sentences):
    assert split_sentences(text) == sentences


def test_every_abbreviation():
    for name in ABBREVIATIONS:
        for written in (name, name.capitalize(), name.upper()):
            assert split_sentences(f"See {written}. Smith.") == [f"See {written}. Smith."]
    assert split_sentences("See it. Smith.") == ["See it.", "Smith."]


def test_nothing_but_white_space_is_lost():
    text = 'Mr. J. Smith said "No!" He left...\n2 hours later<br/>it rained。真的？ Yes.'
    found = "".join("".join(split_sentences(text)).split())
    assert found == "".join(text.replace("<br/>", "").split())


@pytest.mark.quick(slow=["A. ", "Mr. "])
@pytest.mark.parametrize(
    "part",
    [
        "It is so. ",
        "A. ",
        "Mr. ",
        ".",
        "!?",
        '."',
        ". (",
        "? ",
        "<br ",
        "\n",
        " ",
        "a",
        "。",
        '.   "',
    ],
)
def test_a_long_text(part):
    """A million characters; work that grows with the square would take an hour."""
    text = part * (1_000_000 // len(part))
    begin = time.process_time()
    found = split_sentences(text)
    assert time.process_time() - begin < 10
    assert sum(map(len, found)) <= len(text)
    assert len(found) == {"It is so. ": 100_000, "? ": 1, "。": 1}.get(part, len(found))
