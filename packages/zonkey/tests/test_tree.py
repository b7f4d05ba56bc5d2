"""Trees of labels: structure, pairs of nodes, sums of probabilities, refusals."""

import copy
import pickle
import time

import numpy as np
import pytest
from libraries import LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from tree_cases import PARENTS, TREE, naive_path, naive_sums

from zonkey import Prototypes, Tree

INNER = sorted({parent for parent in PARENTS.values() if parent is not None})
NODES = sorted({*PARENTS, *INNER})
LEAVES = [node for node in NODES if node not in INNER]
ROWS = np.random.default_rng(0).normal(size=(len(LEAVES), 3))


def test_nodes_are_leaves_or_inner():
    assert TREE.nodes.tolist() == NODES
    assert TREE.leaves.tolist() == LEAVES
    assert TREE.inner.tolist() == INNER
    assert len(TREE) == len(NODES)
    assert repr(TREE) == f"Tree({len(LEAVES)} leaves, {len(INNER)} inner nodes, 5 levels)"
    assert TREE.parents == {node: PARENTS.get(node) for node in NODES}
    with pytest.raises(ValueError, match="read-only"):
        TREE.nodes[0] = "x"


@pytest.mark.parametrize("node", NODES)
def test_paths_and_what_is_below(node):
    assert TREE.path(node) == naive_path(node)
    assert TREE.depths[TREE.positions([node])[0]] == len(naive_path(node))
    below = [leaf for leaf in LEAVES if node in naive_path(leaf)]
    assert TREE.leaves_below(node).tolist() == below
    assert TREE.children(node).tolist() == [n for n in NODES if PARENTS.get(n) == node]


def test_the_top_has_children_too():
    assert TREE.children().tolist() == ["animal", "bird"]


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5, 9])
def test_levels_keep_leaves_above_them(level):
    expected = {(path := naive_path(leaf))[min(level, len(path)) - 1] for leaf in LEAVES}
    assert TREE.at_level(level).tolist() == sorted(expected)
    lifted = [(path := naive_path(node))[min(level, len(path)) - 1] for node in NODES]
    assert TREE.lift(NODES, level).tolist() == lifted


def test_pairs_of_nodes():
    for a in NODES:
        for b in NODES:
            first, second = naive_path(a), naive_path(b)
            common = [x for x, y in zip(first, second, strict=False) if x == y]
            assert TREE.lowest_common(a, b) == (common[-1] if common else None)
            edges = len(first) + len(second) - 2 * len(common)
            assert TREE.distance([a], [b]).tolist() == [edges]


def test_probabilities_add_up():
    P = np.random.default_rng(1).dirichlet(np.ones(len(LEAVES)), size=7)
    expected = [naive_sums(dict(zip(LEAVES, row, strict=True))) for row in P]
    for level in (None, 1, 3, 9):
        names = NODES if level is None else TREE.at_level(level)
        wanted = [[row[n] for n in names] for row in expected]
        assert_allclose(TREE.sum_leaves(P, level), wanted, rtol=1e-12)
        for library in LIBRARIES:
            found = library.numpy(TREE.sum_leaves(library(P), level))
            assert_allclose(found, wanted, rtol=1e-9)
    assert TREE.sum_leaves(P.astype(np.float32)).dtype == np.float32


def test_a_part_of_a_tree_keeps_its_paths():
    part = TREE.restrict(["gnu", "hen", "newt"])
    assert part.leaves.tolist() == ["gnu", "hen", "newt"]
    assert part.path("gnu") == naive_path("gnu")
    assert part.path("newt") == ("newt",)
    assert TREE.restrict(["newt"]).nodes.tolist() == ["newt"]
    assert TREE.restrict(TREE.leaves) == TREE


def test_trees_are_joined():
    other = Tree({"eel": "fish", "fish": "animal"})
    joined = TREE.extend(other)
    assert joined.path("eel") == ("animal", "fish", "eel")
    assert joined.restrict(LEAVES) == TREE
    assert TREE.extend(TREE) == TREE
    assert Tree({"a": "b"}).extend(Tree({"b": "c"})).path("a") == ("c", "b", "a")
    with refused(ValueError, "one parent", "'fox'", "'mammal'", "'bird'"):
        TREE.extend(Tree({"fox": "bird"}))


def test_numbers_are_labels_too():
    tree = Tree({1: 10, 2: 10, 3: None})
    assert tree.leaves.tolist() == [1, 2, 3]
    assert tree.path(2) == (10, 2)


@pytest.mark.parametrize("missing", [None, float("nan"), "", "  "])
def test_a_missing_parent_is_the_top(missing):
    assert Tree({"a": "b", "b": missing}).path("a") == ("b", "a")


def test_copies_are_equal():
    for other in (copy.deepcopy(TREE), pickle.loads(pickle.dumps(TREE)), Tree(TREE)):
        assert other == TREE
        assert not other.nodes.flags.writeable
    assert Tree({"a": "b"}) != Tree({"a": "c"})
    assert TREE != PARENTS


def test_faults_are_refused():
    with refused(ValueError, "above itself", "'c' -> 'a' -> 'b' -> 'c'"):
        Tree({"a": "b", "b": "c", "c": "a", "d": "a"})
    with refused(ValueError, "above itself", "'a' -> 'a'"):
        Tree({"a": "a"})
    with refused(TypeError, "all strings or all numbers", "int, str"):
        Tree({"a": 1})
    with refused(TypeError, "nonempty mapping", "[('a', 'b')]"):
        Tree([("a", "b")])
    with refused(TypeError, "nonempty mapping", "{}"):
        Tree({})
    with refused(ValueError, "must be in the tree", "'yak'"):
        TREE.path("yak")
    with refused(ValueError, "one kind"):
        TREE.path(3)
    for level in (0, -1, 1.0, True, "1"):
        with refused(ValueError, "`level`", "5 levels"):
            TREE.at_level(level)
    with pytest.warns(UserWarning, match="NFC"), refused(ValueError, "one parent"):
        Tree({"e\u0301": "a", "\u00e9": "a"})


def test_large_trees_are_cheap():
    rng, n = np.random.default_rng(0), 20_000
    parents = {i: int(rng.integers(i // 2 - 2, i // 2)) if i > 4 else None for i in range(n)}
    started = time.perf_counter()
    tree = Tree(parents)
    assert len(tree.leaves) > 5000
    assert tree.membership.nnz < 20 * n
    tree.sum_leaves(np.full((20, len(tree.leaves)), 1e-4))
    assert time.perf_counter() - started < 2


# In prototypes


def test_prototypes_have_a_tree():
    own = Prototypes(LEAVES, ROWS, parents=PARENTS)
    assert own.tree == TREE
    assert own != Prototypes(LEAVES, ROWS)
    assert own.fingerprint() != Prototypes(LEAVES, ROWS).fingerprint()
    assert "5 levels" in repr(own)
    assert own.normalized().tree == TREE
    assert own.with_parents(None) == Prototypes(LEAVES, ROWS)
    for other in (copy.deepcopy(own), pickle.loads(pickle.dumps(own)), Prototypes.coerce(own)):
        assert other == own


def test_classes_without_a_parent_are_at_the_top():
    own = Prototypes([*LEAVES, "newt"], [*ROWS, ROWS[0]], parents=PARENTS)
    assert own.tree.path("newt") == ("newt",)


def test_parts_and_extensions_keep_the_tree():
    own = Prototypes(LEAVES, ROWS, parents=PARENTS)
    assert own.subset(["gnu", "hen"]).tree == TREE.restrict(["gnu", "hen"])
    more = Prototypes(["eel"], ROWS[:1], parents={"eel": "fish", "fish": "animal"})
    assert own.extended(more).tree.path("eel") == ("animal", "fish", "eel")
    assert own.extended({"newt": ROWS[0]}).tree.path("newt") == ("newt",)
    plain = Prototypes(["eel"], ROWS[:1])
    assert plain.extended(own).tree.path("gnu") == naive_path("gnu")
    assert plain.extended({"newt": ROWS[0]}).tree is None


def test_a_node_without_a_row_has_the_mean_of_its_children():
    given = np.array([5.0, 6.0, 7.0])
    own = Prototypes([*LEAVES, "hoofed"], [*ROWS, given], parents=PARENTS)
    rows = dict(zip(LEAVES, ROWS, strict=True))
    herd, insect = rows["gnu"], (rows["ant"] + rows["bee"]) / 2
    mammal = (given + rows["dog"] + rows["fox"]) / 3
    every = own.at_nodes()
    assert every.labels.tolist() == NODES
    assert_array_equal(every["hoofed"], given)
    assert_allclose(every["herd"], herd)
    assert_allclose(every["animal"], (insect + mammal) / 2)
    assert own.at_leaves() == Prototypes(LEAVES, ROWS, parents=PARENTS)
    plain = Prototypes(LEAVES, ROWS)
    assert plain.at_nodes() is plain
    assert plain.at_leaves() is plain


def test_a_parent_of_nothing_is_refused():
    with refused(ValueError, "have a prototype, or children", "'yak'"):
        Prototypes(LEAVES, ROWS, parents={**PARENTS, "yak": "hoofed"})
    with refused(ValueError, "one kind"):
        Prototypes([1, 2], ROWS[:2], parents={"a": "b"})
