"""The npu device: host memory, CPU kernels, npu faces."""

import os
import subprocess
import sys

import pytest
import torch
import torch_npu

from .exact import npu, same


def test_factories_and_copies_live_on_the_device():
    for tensor in (torch.zeros(3, device="npu"), torch.arange(4, device="npu"), torch.empty(2, 2, device="npu:0")):
        assert tensor.device == torch.device("npu:0")
    host = torch.randn(3, 4)
    assert same(npu(host), host)
    assert same(npu(host).to(torch.bfloat16), host.to(torch.bfloat16))
    assert npu(host).cpu().device.type == "cpu"


def test_views_share_memory():
    base = torch.zeros(4, 6, device="npu")
    base[1:3, ::2].add_(1)
    base.view(-1)[0] = 5
    base.T[5].fill_(7)
    expected = torch.zeros(4, 6)
    expected[1:3, ::2] += 1
    expected[0, 0] = 5
    expected[:, 5] = 7
    assert same(base, expected)
    assert base.view(2, 12).data_ptr() == base.data_ptr()


def test_aliasing_arguments_stay_aliases():
    base = torch.arange(6.0, device="npu")
    base[:3].copy_(base[3:])
    assert same(base, torch.tensor([3.0, 4, 5, 3, 4, 5]))
    base.add_(base)
    assert same(base, 2 * torch.tensor([3.0, 4, 5, 3, 4, 5]))


def test_out_arguments_are_resized():
    out = torch.empty(0, device="npu")
    assert torch.add(torch.ones(5, device="npu"), 1, out=out) is out
    assert same(out, torch.full((5,), 2.0))
    torch.exp(torch.zeros(2, 3, device="npu"), out=out.resize_(0))
    assert same(out, torch.ones(2, 3))


def test_cpu_view_and_npu_view_are_zero_copy():
    tensor = torch.zeros(3, device="npu")
    torch_npu.cpu_view(tensor)[1] = 4
    assert tensor[1].item() == 4
    host = torch.zeros(3)
    torch_npu.npu_view(host).fill_(2)
    assert host.tolist() == [2, 2, 2]


def test_lazy_conjugate_does_not_recurse():
    values = torch.randn(3, dtype=torch.complex64)
    assert same(npu(values).conj() * 2, values.conj() * 2)
    assert same(npu(values).conj().resolve_conj(), values.conj().resolve_conj())


def test_indexing_and_tensor_lists():
    values = torch.randn(5, 3)
    index = torch.tensor([3, 0, 0])
    assert same(npu(values)[npu(index)], values[index])
    assert same(torch.cat([npu(values), npu(values)], 1), torch.cat([values, values], 1))
    written = npu(values)
    written[npu(index), 1] = npu(torch.tensor([1.0, 2.0, 2.0]))
    assert written[3, 1].item() == 1 and written[0, 1].item() == 2


def test_is_cuda_as_transfer_to_npu_makes_it():
    assert torch.zeros(1, device="npu").is_cuda
    assert not torch.zeros(1).is_cuda


def test_streams_events_and_properties():
    stream = torch.npu.Stream()
    before = torch.npu.current_stream()
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() is stream
        event = stream.record_event()
    assert torch.npu.current_stream() is before
    event.wait()
    assert event.query() and event.elapsed_time(torch.npu.Event()) <= 0
    assert torch.npu.device_count() == 1 and torch.npu.current_device() == 0
    assert torch.npu.get_device_properties(0).total_memory == torch.npu.mem_get_info()[1]


def test_memory_is_counted(monkeypatch):
    monkeypatch.setenv("NPU_TWIN_MEM_GB", "2")
    free, total = torch.npu.mem_get_info()
    kept = torch.empty(1 << 20, dtype=torch.uint8, device="npu")
    assert total == 2 << 30
    assert free - torch.npu.mem_get_info()[0] == kept.numel()
    torch.npu.reset_peak_memory_stats()
    del kept
    assert torch.npu.mem_get_info()[0] == free
    assert torch.npu.max_memory_allocated() - torch.npu.memory_allocated() == 1 << 20


def test_graph_capture_is_refused():
    with pytest.raises(RuntimeError, match="disable_cuda_graph"):
        torch.npu.NPUGraph()


def test_unknown_names_raise_when_called():
    with pytest.raises(NotImplementedError, match="npu_geglu"):
        torch_npu.npu_geglu(torch.zeros(1, device="npu"))
    with pytest.raises(AttributeError):
        torch_npu.no_such_name  # noqa: B018


@pytest.mark.parametrize("first", ["torch", "torch_npu"])
def test_a_fresh_process_has_the_device(first):
    code = f"import {first}; import torch; print(torch.ones(2, device='npu').sum().item())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "2.0", done.stderr


def test_several_devices_when_asked_for():
    code = (
        "import torch; torch.npu.set_device(1); a = torch.ones(2, device='npu')\n"
        "with torch.npu.device(0): b = torch.zeros(1, device='npu')\n"
        "print(torch.npu.device_count(), a.device, (a + 1).device, b.device, torch.arange(3, device='npu:0').device)"
    )

    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"NPU_TWIN_DEVICES": "2"},
    )
    assert done.stdout.split() == ["2", "npu:1", "npu:1", "npu:0", "npu:0"], done.stderr
