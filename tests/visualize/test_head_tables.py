"""The tables of roles and of pairs of heads."""

import re

import numpy as np
import pytest

from keras_attn.explain import HeadRoles
from keras_attn.visualize import head_roles_fragment, head_roles_html
from keras_attn.visualize.head_tables import pairs_card

ROLES = HeadRoles(
    [
        [[0.9, 0.0, 0.1, 0.0, 0.2], [0.0, 0.6, 0.1, 0.2, 0.7]],
        [[0.1, 0.1, 0.1, 0.1, 0.96], [0.2, 0.3, 0.2, 0.2, 0.5]],
    ],
    tokens=4,
    texts=2,
)


def cells(table):
    """Classes and text of the cells, row by row."""
    rows = [re.findall(r"<td([^>]*)>(.*?)</td>", row) for row in table.split("<tr")[2:]]
    return [
        [
            (re.search('class="([^"]*)"', about)[1], re.sub("<.*?>", " ", text))
            for about, text in row
        ]
        for row in rows
    ]


def test_each_head_has_its_role_and_numbers():
    page = head_roles_fragment(ROLES)
    assert "mean over 4 tokens of 2 texts" in page
    tables = page.split("<table>")[1:]
    assert cells(tables[0]) == [
        [("previous v18", "previous 0.90 "), ("next v12", "next 0.60 ")],
        [("spread v19", "spread 0.96 "), ("mixed v0", "mixed")],
    ]
    names = re.findall(r"<summary>(\w+)", page)
    assert names == ["previous", "next", "same", "special", "spread", "other"]
    for name, table in zip(names, tables[1:], strict=True):
        values = ROLES.other if name == "other" else ROLES.values[..., names.index(name)]
        for row, expected in zip(cells(table), values, strict=True):
            assert [text for _, text in row] == [f"{value:.2f}" for value in expected]
            assert [about for about, _ in row] == [f"{name} v{round(20 * v)}" for v in expected]
    assert 'title="layer 1, head 1: previous 0.20, next 0.30, same 0.20, special 0.20' in page


def test_a_style_sheet_for_the_card_alone():
    style = head_roles_fragment(ROLES)[len("<style>") :].partition("</style>")[0]
    selectors = re.findall(r"([^{}]+)\{", style.replace("@media (prefers-color-scheme:dark){", ""))
    assert all(each.strip().startswith(".kh") for line in selectors for each in line.split(","))
    levels = re.findall(r"\.kh \.v(\d+)\{--v:([\d.]+)\}", style)
    assert [(int(i), float(v)) for i, v in levels] == [(i, i / 20) for i in range(21)]


def test_pairs():
    table = np.array([[0, np.log(2), 0.01, 0.2]] * 4)
    table = np.triu(table, 1)
    table = table + table.T
    card = pairs_card(table, 2, 2)
    levels = [int(level) for level in re.findall(r'<td class="v(\d+)', card)]
    expected = np.rint(20 * (1 - np.sqrt(table / np.log(2)))).astype(int)
    assert levels == expected.ravel().tolist()
    assert 'title="0.1, 1.0: 0.01"' in card
    assert re.findall(r"<li>(.*?)</li>", card)[:2] == ["0.0 and 1.0: 0.010", "0.1 and 1.0: 0.010"]
    page = head_roles_html(ROLES, table, "<b>")
    assert card in page and "&lt;b&gt;" in page and "<b>" not in page.split("<main>")[1][:40]
    assert "<script" not in page


@pytest.mark.parametrize("table", [np.zeros((2, 2)), np.full((4, 4), 0.8), np.full((4, 4), np.nan)])
def test_refuses_what_is_no_divergence_of_these_heads(table):
    with pytest.raises(ValueError, match=r"shape \(4, 4\), .*values from 0 to log 2\. Received"):
        head_roles_html(ROLES, table)
