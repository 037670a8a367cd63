"""With this folder on PYTHONPATH a server plants a fault: rows of requests longer than DSV4_TREE_PLANT_AT tokens see
the first branch's node at depth 1 instead of their own."""

from __future__ import annotations

import importlib.util
import os
import sys

TARGET = "dsv4_npu_tree.attention.backend"


def _plant(module) -> None:
    original, limit = module.plan_verify, int(os.environ["DSV4_TREE_PLANT_AT"])

    def plan_verify(topology, request, prefix, *args):
        plan = original(topology, request, prefix, *args)
        row = plan.store_row.view(topology.branch_table.shape)
        wrong = row[:, :1, 1].expand_as(row[:, :, 1])
        hurt = (plan.prefix > limit)[:, None]
        row[:, :, 1] = wrong.where(hurt, row[:, :, 1])
        return plan

    module.plan_verify = plan_verify


class _Finder:
    """Runs ``_plant`` after the target module, whenever that is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != TARGET:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module) -> None:
            run(module)
            _plant(module)

        spec.loader.exec_module = exec_module
        return spec


if "DSV4_TREE_PLANT_AT" in os.environ:
    sys.meta_path.insert(0, _Finder())
