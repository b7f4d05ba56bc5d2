"""A small tree of uneven depth, and what follows from it as plain loops."""

from zonkey import Prototypes, Tree

# Leaves at levels 1 to 4; "gnu" alone below "herd"; two nodes at the top, and a leaf.
PARENTS = {
    "ant": "insect",
    "bee": "insect",
    "insect": "animal",
    "cow": "hoofed",
    "herd": "hoofed",
    "gnu": "herd",
    "hoofed": "mammal",
    "dog": "mammal",
    "elk": "hoofed",
    "fox": "mammal",
    "mammal": "animal",
    "hen": "bird",
    "jay": "bird",
    "animal": None,
}
TREE = Tree(PARENTS)


def naive_path(node, parents=PARENTS):
    """Return the path from the top to a node."""
    path = [node]
    while parents.get(path[0]) is not None:
        path.insert(0, parents[path[0]])
    return tuple(path)


def naive_sums(probabilities, parents=PARENTS):
    """Return the probability of each node, from a mapping of leaves to theirs."""
    sums = {}
    for leaf, p in probabilities.items():
        for node in naive_path(leaf, parents):
            sums[node] = sums.get(node, 0.0) + p
    return sums


def naive_answer(probabilities, level=None, below=None, parents=PARENTS):
    """Return the answer to a sample: at a level, as deep as sure; None if nothing is."""
    sums = naive_sums(probabilities, parents)
    depths = {node: len(naive_path(node, parents)) for node in sums}
    last = max(depths.values()) if level is None else level
    cut = [n for n in sums if depths[n] == last or (n in probabilities and depths[n] < last)]
    best = max(sorted(cut), key=lambda node: sums[node])
    if level is None:
        best = max(sorted(probabilities), key=lambda node: probabilities[node])
    if below is None or sums[best] >= below:
        return best
    inner = [node for node in sums if node not in probabilities and depths[node] < last]
    sure = [node for node in sorted(inner) if sums[node] >= below]
    return max(sure, key=lambda node: (depths[node], sums[node])) if sure else None


def with_tree(prototypes, parents=PARENTS):
    """Return prototypes of the classes in the tree."""
    known = [label for label in prototypes if label in TREE.nodes]
    return Prototypes(known, [prototypes[label] for label in known], parents=parents)
