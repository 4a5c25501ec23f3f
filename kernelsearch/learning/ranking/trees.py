"""Boosted trees as arrays of our own: what is read from a file is checked before xgboost, which trusts it, sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import invariants

#: The arrays, each of one element per node of all trees, with xgboost's names and their types.
NODES: dict[str, tuple[str, type[Any]]] = {
    "tree_left": ("left_children", np.int32),
    "tree_right": ("right_children", np.int32),
    "tree_features": ("split_indices", np.int32),
    "tree_thresholds": ("split_conditions", np.float32),  # a leaf's value in place of a threshold
    "tree_missing_left": ("default_left", np.uint8),
    "tree_gains": ("loss_changes", np.float32),
    "tree_weights": ("base_weights", np.float32),
    "tree_hessians": ("sum_hessian", np.float32),
}
#: The array of the number of nodes of each tree.
SIZES = "tree_sizes"
#: What xgboost writes as the parent of a root.
NO_PARENT = 2**31 - 1


def trees_to_arrays(booster: Any) -> dict[str, NDArray[Any]]:
    """Returns the trees of an xgboost booster: SIZES, shape (trees,), and the arrays of NODES, shape (nodes,)."""
    trees = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]["model"]["trees"]
    arrays: dict[str, NDArray[Any]] = {SIZES: np.array([len(tree["left_children"]) for tree in trees], dtype=np.int64)}
    for name, (key, dtype) in NODES.items():
        arrays[name] = np.array([value for tree in trees for value in tree[key]], dtype=dtype)
    return arrays


def check_trees(arrays: Mapping[str, NDArray[Any]], features: int) -> None:
    """Raises ValueError or KeyError unless the arrays are trees over `features` features.

    Every node but a tree's first is the child of exactly one node before it, which excludes cycles; thresholds are finite.
    """
    sizes = arrays[SIZES]
    invariants.require_range(SIZES, sizes, 1, 2**31)
    total = int(sizes.sum(dtype=np.int64))
    for name, (_, dtype) in NODES.items():
        invariants.require_length(name, arrays[name], total)
        if arrays[name].dtype != dtype:
            raise ValueError(f"{name} has type {arrays[name].dtype}")
        if dtype is np.float32:
            invariants.require_finite(name, arrays[name])
    invariants.require_range("tree_missing_left", arrays["tree_missing_left"], 0, 2)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    places, limits = np.arange(total) - starts, np.repeat(sizes, sizes)
    left, right = arrays["tree_left"].astype(np.int64), arrays["tree_right"].astype(np.int64)
    inner = left != -1
    if ((right != -1) != inner).any():
        raise ValueError("a node of a tree has one child")
    for children in (left, right):
        if (inner & ((children <= places) | (children >= limits))).any():
            raise ValueError("a child of a tree's node is out of range")
    parents = np.bincount(np.concatenate([(starts + left)[inner], (starts + right)[inner]]), minlength=total)
    if (parents != (places > 0)).any():
        raise ValueError("a node of a tree has no parent or several")
    used = arrays["tree_features"][inner]
    if len(used):
        invariants.require_range("tree_features", used, 0, features)


def arrays_to_booster(arrays: Mapping[str, NDArray[Any]], features: int, settings: Mapping[str, Any]) -> Any:
    """The xgboost booster with the trees `arrays`, which `check_trees` has accepted for this number of `features`.

    `settings` are those of training.
    """
    xgboost = import_module("xgboost")
    # A booster without trees has everything else in the form of the installed xgboost.
    rows = xgboost.DMatrix(np.zeros((1, features), dtype=np.float32), label=[0], group=[1], nthread=1)
    model = json.loads(bytes(xgboost.train(dict(settings), rows, num_boost_round=0).save_raw("json")))
    sizes, ends = arrays[SIZES], np.cumsum(arrays[SIZES])
    parts = [slice(int(end - size), int(end)) for size, end in zip(sizes, ends, strict=True)]
    trees = model["learner"]["gradient_booster"]["model"]
    trees["trees"] = [_tree(number, part, arrays, features) for number, part in enumerate(parts)]
    trees["tree_info"] = [0] * len(parts)
    trees["iteration_indptr"] = list(range(len(parts) + 1))
    trees["gbtree_model_param"]["num_trees"] = str(len(parts))
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(json.dumps(model).encode()))
    return booster


def _tree(number: int, part: slice, arrays: Mapping[str, NDArray[Any]], features: int) -> dict[str, Any]:
    """A tree in xgboost's JSON form."""
    nodes = {key: arrays[name][part] for name, (key, _) in NODES.items()}
    left, right = nodes["left_children"], nodes["right_children"]
    parents = np.full(len(left), NO_PARENT, dtype=np.int64)
    inner = np.flatnonzero(left != -1)
    parents[left[inner]] = parents[right[inner]] = inner
    return {
        **{key: values.tolist() for key, values in nodes.items()},
        "parents": parents.tolist(),
        "id": number,
        "split_type": [0] * len(left),
        **{key: [] for key in ("categories", "categories_nodes", "categories_segments", "categories_sizes")},
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(features),
            "num_nodes": str(len(left)),
            "size_leaf_vector": "1",
        },
    }
