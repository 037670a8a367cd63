"""Upstream DeepSeek-V4 tensor names and storage types, to and from the HF module names.

Upstream keeps one tensor per expert (``w1`` gate, ``w3`` up, ``w2`` down) where HF keeps one
``gate_up_proj`` [E, 2I, D] and one ``down_proj`` [E, D, I]; everything else is a renaming.  Matrices and norms are
stored in bfloat16; hyper-connection tensors, ``ape``, ``attn_sink`` and the router bias in float32; ``tid2eid`` in
int64.
"""

import re
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

WEIGHTS_FILE = "model.safetensors"
DRAFT_PREFIX = "mtp.0."

_LAYER_RENAMES = (  # (HF, upstream), tried in order on the name below a decoder layer
    ("self_attn.compressor.indexer.scorer.weights_proj.", "attn.indexer.weights_proj."),
    ("self_attn.compressor.indexer.q_b_proj.", "attn.indexer.wq_b."),
    ("self_attn.compressor.indexer.kv_norm.", "attn.indexer.compressor.norm."),
    ("self_attn.compressor.indexer.kv_proj.", "attn.indexer.compressor.wkv."),
    ("self_attn.compressor.indexer.gate_proj.", "attn.indexer.compressor.wgate."),
    ("self_attn.compressor.indexer.position_bias", "attn.indexer.compressor.ape"),
    ("self_attn.compressor.kv_norm.", "attn.compressor.norm."),
    ("self_attn.compressor.kv_proj.", "attn.compressor.wkv."),
    ("self_attn.compressor.gate_proj.", "attn.compressor.wgate."),
    ("self_attn.compressor.position_bias", "attn.compressor.ape"),
    ("self_attn.q_a_proj.", "attn.wq_a."),
    ("self_attn.q_a_norm.", "attn.q_norm."),
    ("self_attn.q_b_proj.", "attn.wq_b."),
    ("self_attn.kv_proj.", "attn.wkv."),
    ("self_attn.kv_norm.", "attn.kv_norm."),
    ("self_attn.o_a_proj.", "attn.wo_a."),
    ("self_attn.o_b_proj.", "attn.wo_b."),
    ("self_attn.sinks", "attn.attn_sink"),
    ("input_layernorm.", "attn_norm."),
    ("post_attention_layernorm.", "ffn_norm."),
    ("attn_hc.", "hc_attn_"),
    ("ffn_hc.", "hc_ffn_"),
    ("mlp.gate.e_score_correction_bias", "ffn.gate.bias"),
    ("mlp.gate.", "ffn.gate."),
    ("mlp.shared_experts.gate_proj.", "ffn.shared_experts.w1."),
    ("mlp.shared_experts.down_proj.", "ffn.shared_experts.w2."),
    ("mlp.shared_experts.up_proj.", "ffn.shared_experts.w3."),
)
_TOP_RENAMES = (
    ("model.embed_tokens.", "embed."),
    ("lm_head.", "head."),
    ("model.norm.", "norm."),
    ("model.hc_head.hc_", "hc_head_"),
)
_FLOAT32 = re.compile(r"(^|\.)hc_|\.ape$|\.attn_sink$|\.gate\.bias$")


def _rename(name: str, renames, source: int, target: int) -> str:
    for pair in renames:
        if name.startswith(pair[source]):
            return pair[target] + name[len(pair[source]) :]
    return name


def layer_to_upstream(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """One HF decoder layer's state dict -> upstream names below ``layers.N.`` (or ``mtp.0.``)."""
    out = {}
    for name, tensor in state.items():
        if name == "mlp.experts.gate_up_proj":
            for expert, pair in enumerate(tensor):
                gate, up = pair.chunk(2, dim=0)
                out[f"ffn.experts.{expert}.w1.weight"] = gate
                out[f"ffn.experts.{expert}.w3.weight"] = up
        elif name == "mlp.experts.down_proj":
            for expert, down in enumerate(tensor):
                out[f"ffn.experts.{expert}.w2.weight"] = down
        else:
            out[_rename(name, _LAYER_RENAMES, 0, 1)] = tensor
    return out


def layer_from_upstream(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Inverse of ``layer_to_upstream``."""
    experts = sum(bool(re.fullmatch(r"ffn\.experts\.\d+\.w2\.weight", name)) for name in tensors)

    def stack(part: str) -> torch.Tensor:
        return torch.stack([tensors[f"ffn.experts.{e}.{part}.weight"] for e in range(experts)])

    out = {
        "mlp.experts.gate_up_proj": torch.cat([stack("w1"), stack("w3")], dim=1),
        "mlp.experts.down_proj": stack("w2"),
    }
    for name, tensor in tensors.items():
        if not name.startswith("ffn.experts."):
            out[_rename(name, _LAYER_RENAMES, 1, 0)] = tensor
    return out


def target_to_upstream(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """State dict of ``DeepseekV4ForCausalLM`` -> upstream names."""
    out, layers = {}, {}
    for name, tensor in state.items():
        match = re.match(r"model\.layers\.(\d+)\.(.*)", name)
        if match:
            layers.setdefault(int(match[1]), {})[match[2]] = tensor
        else:
            out[_rename(name, _TOP_RENAMES, 0, 1)] = tensor
    for index, layer in layers.items():
        out.update({f"layers.{index}.{k}": v for k, v in layer_to_upstream(layer).items()})
    return out


def draft_to_upstream(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """State dict of ``NextN`` -> ``mtp.0.*``."""
    layer = {k.removeprefix("layer."): v for k, v in state.items() if k.startswith("layer.")}
    rest = {k.replace("hc_head.hc_", "hc_head_"): v for k, v in state.items() if not k.startswith("layer.")}
    return {DRAFT_PREFIX + k: v for k, v in (layer_to_upstream(layer) | rest).items()}


def draft_from_upstream(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Inverse of ``draft_to_upstream``; tensors outside ``mtp.0.`` are ignored."""
    layer, out = {}, {}
    for name, tensor in tensors.items():
        if not name.startswith(DRAFT_PREFIX):
            continue
        name = name.removeprefix(DRAFT_PREFIX)
        if name.startswith("hc_head_"):
            out[name.replace("hc_head_", "hc_head.hc_")] = tensor
        elif name.split(".")[0] in ("e_proj", "h_proj", "enorm", "hnorm", "norm"):
            out[name] = tensor
        else:
            layer[name] = tensor
    return out | {"layer." + k: v for k, v in layer_from_upstream(layer).items()}


def stored(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as the file keeps it, by upstream name."""
    if not tensor.is_floating_point():
        return tensor.contiguous()
    return tensor.to(torch.float32 if _FLOAT32.search(name) else torch.bfloat16).contiguous()


def save_weights(tensors: dict[str, torch.Tensor], out: Path) -> None:
    """Write upstream-named tensors to ``out/model.safetensors``, in name order."""
    kept = {name: stored(name, tensors[name].detach()).clone() for name in sorted(tensors)}
    save_file(kept, str(out / WEIGHTS_FILE), metadata={"format": "pt"})
    (out / WEIGHTS_FILE).chmod(0o644)


def load_weights(path: Path, prefix: str = "") -> dict[str, torch.Tensor]:
    """Upstream-named tensors that start with ``prefix``, in their stored types."""
    with safe_open(str(Path(path) / WEIGHTS_FILE), framework="pt") as file:
        names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 (not a mapping)
        return {name: file.get_tensor(name) for name in names}
