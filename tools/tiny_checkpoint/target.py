"""The target model: HF ``DeepseekV4ForCausalLM`` in fp32, fresh or loaded, and its streams."""

import copy
from pathlib import Path

import torch
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.models.deepseek_v4.configuration_deepseek_v4 import DeepseekV4Config
from transformers.models.deepseek_v4.modeling_deepseek_v4 import DeepseekV4ForCausalLM

from tools.tiny_checkpoint.lookback import look_back


def hf_config(fields: dict) -> DeepseekV4Config:
    """HF config from ``config_dict`` fields, eager attention and experts."""
    own = copy.deepcopy(fields)  # HF writes into the nested rope_scaling
    config = DeepseekV4Config(**{k: v for k, v in own.items() if k not in ("architectures", "model_type")})
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    return config


def hf_model(path: str | Path, dtype: torch.dtype = torch.float32) -> DeepseekV4ForCausalLM:
    """The checkpoint as an HF model in eval mode; raises if a tensor is missing or unknown."""
    model, info = AutoModelForCausalLM.from_pretrained(
        str(path), dtype=dtype, attn_implementation="eager", experts_implementation="eager", output_loading_info=True
    )
    bad = {kind: names for kind, names in info.items() if names}
    if bad:
        raise ValueError(f"{path} does not match the model: {bad}")
    return model.eval()


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Fill every parameter and buffer of a target or draft with a starting value for training.

    Matrices are N(0, 1/fan_in), those that write into the residual ten times smaller.  The hyper-connections start
    near "keep every stream", with enough noise in ``base`` to tell the streams apart.
    """

    def normal(shape) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    for name, parameter in module.named_parameters():
        if name.endswith("norm.weight"):
            value = torch.ones(parameter.shape)
        elif name.endswith("sinks"):
            value = torch.zeros(parameter.shape)
        elif name.endswith("position_bias"):
            value = 0.1 * normal(parameter.shape)
        elif name.endswith("_hc.base"):
            streams = round((parameter.numel() + 1) ** 0.5) - 1  # (2 + n) * n values: pre, post, comb
            comb = 2.0 * torch.eye(streams).flatten()
            value = torch.cat([torch.full((streams,), -1.0), torch.zeros(streams), comb])
            value = value + 0.5 * normal(parameter.shape)
        elif name.endswith("hc_base"):
            value = 0.2 * normal(parameter.shape)
        elif name.endswith((".scale", "hc_scale")):
            value = torch.ones(parameter.shape)
        elif name.endswith((".fn", "hc_fn")):
            value = 0.1 * normal(parameter.shape) / parameter.shape[-1] ** 0.5
        elif name.endswith("embed_tokens.weight"):
            value = normal(parameter.shape)
        elif name.endswith(("o_b_proj.weight", "down_proj", "down_proj.weight")):
            value = 0.1 * normal(parameter.shape) / parameter.shape[-1] ** 0.5
        else:
            value = normal(parameter.shape) / parameter.shape[-1] ** 0.5
        parameter.data.copy_(value)
    for name, buffer in module.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.zero_()
        elif name.endswith("tid2eid"):
            experts = module.config.n_routed_experts
            rows = [torch.randperm(experts, generator=generator)[: buffer.shape[1]] for _ in range(buffer.shape[0])]
            buffer.copy_(torch.stack(rows))


def fresh_target(fields: dict, seed: int) -> DeepseekV4ForCausalLM:
    """An untrained target, a function of the fields and the seed only; its window layers look back."""
    model = DeepseekV4ForCausalLM(hf_config(fields))
    initialise(model, torch.Generator().manual_seed(seed))
    for layer in model.model.layers:
        if layer.self_attn.layer_type == "sliding_attention":
            look_back(layer.self_attn, fields["qk_rope_head_dim"], fields["rope_theta"])
    return model


def target_streams(model: DeepseekV4ForCausalLM, input_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """ids [B, S] -> (logits [B, S, V], residual streams before the final hyper-head [B, S, hc_mult, D])."""
    seen = []
    handle = model.model.hc_head.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    try:
        logits = model(input_ids=input_ids, use_cache=False).logits
    finally:
        handle.remove()
    return logits, seen[0]
