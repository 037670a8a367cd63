"""transformers' `deepseek_v4` as the truth: in fp32 as it is, and with every fp32 of its code widened to fp64."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from transformers import DynamicCache
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4ForCausalLM

from tools.tiny_checkpoint.config import config_dict
from tools.tiny_checkpoint.target import fresh_target, hf_config

SMALL = {
    "vocab_size": 96,
    "hidden_size": 32,
    "head_dim": 32,
    "qk_rope_head_dim": 8,
    "q_lora_rank": 16,
    "o_lora_rank": 8,
    "index_head_dim": 16,
    "index_topk": 16,  # binds from position 67 on
    "moe_intermediate_size": 16,
    "n_routed_experts": 8,
    "compress_ratios": [0, 4, 128, 4],  # every kind, and layers above each kind to pass its errors on
}


class Doubled(TorchFunctionMode):
    """Casts to fp32 become casts to fp64: the same code, without its rounding."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = {name: torch.float64 if v is torch.float32 else v for name, v in (kwargs or {}).items()}
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        return (torch.Tensor.double if func is torch.Tensor.float else func)(*args, **kwargs)


def random_model(seed: int) -> tuple[DeepseekV4ForCausalLM, dict]:
    """A small model in which nothing is zero or one by initialisation, and its `config.json` fields."""
    fields = config_dict(**SMALL)
    model = fresh_target(fields, seed).eval()
    generator = torch.Generator().manual_seed(seed + 1)
    tensors = [*model.named_parameters(), *model.named_buffers()]
    for name, tensor in tensors:
        noise = torch.randn(tensor.shape, generator=generator) if tensor.is_floating_point() else None
        if name.endswith(("sinks", "position_bias")):
            tensor.data.copy_(noise)
        elif name.endswith(("norm.weight", ".scale", "hc_scale", "e_score_correction_bias")):
            tensor.data.add_(0.1 * noise)
        elif name.endswith(("o_b_proj.weight", "down_proj", "down_proj.weight")):
            tensor.data.mul_(10)  # undoes the quiet start that training wants: every sublayer matters here
    return model, fields


def doubled(model: DeepseekV4ForCausalLM, fields: dict) -> DeepseekV4ForCausalLM:
    """The same weights in a model that was also built in fp64, rotary frequencies included."""
    with Doubled():
        wide = DeepseekV4ForCausalLM(hf_config(fields)).double().eval()
    wide.load_state_dict(model.state_dict())
    assert all(t.dtype == torch.float64 for t in wide.buffers() if t.is_floating_point())
    return wide


@dataclass
class Run:
    """A batch of equal-length sequences through the model; lists over layers."""

    logits: np.ndarray  # [B, S, vocabulary]
    attended: list[np.ndarray]  # [B, S, hidden] outputs of the attention sublayers
    entries: dict[int, np.ndarray]  # C4 layers: [B, S, k] selected entries, ascending, -1 where there are fewer
    experts: dict[int, np.ndarray]  # scored layers: [B, S, k], ascending


class Truth:
    def __init__(self, model: DeepseekV4ForCausalLM) -> None:
        self.model = model
        self.mode = Doubled if next(model.parameters()).dtype == torch.float64 else contextlib.nullcontext

    @contextlib.contextmanager
    def _watched(self) -> Iterator[tuple[dict, dict, dict]]:
        attended, entries, experts, handles = {}, {}, {}, []

        def watch(module, into: dict, layer: int, output) -> None:
            handles.append(module.register_forward_hook(lambda _, args, out: into.update({layer: output(out)})))

        for i, layer in enumerate(self.model.model.layers):
            watch(layer.self_attn, attended, i, lambda out: out[0])
            if hasattr(layer.self_attn.compressor, "indexer"):
                watch(layer.self_attn.compressor.indexer, entries, i, lambda out: out.sort(-1).values)
            if not layer.mlp.is_hash:
                watch(layer.mlp.gate, experts, i, lambda out: out[2].sort(-1).values)
        try:
            yield attended, entries, experts
        finally:
            for handle in handles:
                handle.remove()

    def run(self, ids: Sequence[Sequence[int]]) -> Run:
        """No cache, no padding: the compressors of transformers do not look at the attention mask."""
        batch, length = len(ids), len(ids[0])
        with torch.no_grad(), self.mode(), self._watched() as (attended, entries, experts):
            logits = self.model(input_ids=torch.tensor(ids), use_cache=False).logits
        return Run(
            logits.double().numpy(),
            [attended[i].double().numpy() for i in sorted(attended)],
            {i: chosen.numpy() for i, chosen in entries.items()},
            {i: chosen.view(batch, length, -1).numpy() for i, chosen in experts.items()},
        )

    def cache(self, ids: Sequence[int]) -> DynamicCache:
        cache = DynamicCache(config=self.model.config)
        with torch.no_grad(), self.mode():
            self.model(input_ids=torch.tensor([list(ids)]), past_key_values=cache, use_cache=True)
        return cache


def tensors(model: DeepseekV4ForCausalLM) -> dict[str, np.ndarray]:
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}
