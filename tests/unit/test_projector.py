"""The fp32 projection weights: made at start, and again after somebody loads other weights."""

import torch

from dsv4_npu_tree.hooks.managers.scheduler_components.weight_updater import HOOKS
from dsv4_npu_tree.state.project import Projector


class Compressor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.wkv_gate = torch.nn.Linear(8, 4, bias=False, dtype=torch.bfloat16)
        self.ape = torch.nn.Parameter(torch.zeros(4, 2))


def test_weights_are_widened_when_the_backend_is_built():
    model = torch.nn.Sequential(Compressor(), torch.nn.Linear(2, 2), Compressor())
    projector = Projector(model)
    assert len(projector._wide) == 2
    wide = projector.weight(model[0])
    assert wide.dtype == torch.float32 and torch.equal(wide, model[0].wkv_gate.weight.float())
    assert projector.weight(model[0]) is wide


def test_an_update_of_the_weights_reaches_the_copies():
    compressor = Compressor()
    projector = Projector(compressor)

    def update(manager, request):
        compressor.wkv_gate.weight.data.copy_(torch.full((4, 8), 2.0))
        return "done"

    for hook in HOOKS:
        hook.verify()
        compressor.wkv_gate.weight.data.zero_()
        assert hook.around(update, None, None) == "done"
        assert torch.equal(projector.weight(compressor), torch.full((4, 8), 2.0))
