"""Sizes of the tiny model and the ``config.json`` that states them."""

import json
from pathlib import Path

from tools.tiny_checkpoint.tokenizer import BOS_ID, EOS_ID, PAD_ID

COMPRESS_RATIOS = (0, 4, 128)  # one layer of each kind: window only, C4 with indexer, C128
VOCAB_SIZE = 1024
MAX_POSITIONS = 8192


def config_dict(**overrides) -> dict:
    """``config.json`` of the checkpoint in the upstream field names.

    head_dim 512, rope 64, index_head_dim 128 and sliding_window 128 are the sizes the real kernels are written for;
    16 index heads keep exact-zero index scores, hence ties, out of the way; index_topk 32 makes the selection bind
    from position 131 on.
    """
    fields = {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": "deepseek_v4",
        "torch_dtype": "bfloat16",
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 128,
        "num_hidden_layers": len(COMPRESS_RATIOS),
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 512,
        "qk_rope_head_dim": 64,
        "q_lora_rank": 64,
        "o_groups": 2,
        "o_lora_rank": 64,
        "sliding_window": 128,
        "compress_ratios": list(COMPRESS_RATIOS),
        "index_n_heads": 16,
        "index_head_dim": 128,
        "index_topk": 32,
        "moe_intermediate_size": 64,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "num_hash_layers": 1,
        "scoring_func": "sqrtsoftplus",
        "topk_method": "noaux_tc",
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.5,
        "swiglu_limit": 10.0,
        "hc_mult": 4,
        "hc_sinkhorn_iters": 20,
        "hc_eps": 1e-6,
        "rms_norm_eps": 1e-6,
        "num_nextn_predict_layers": 1,
        "rope_theta": 10000,
        "compress_rope_theta": 160000,
        "max_position_embeddings": MAX_POSITIONS,
        "rope_scaling": {
            "type": "yarn",
            "factor": 4,
            "original_max_position_embeddings": MAX_POSITIONS // 4,
            "beta_fast": 32,
            "beta_slow": 1,
        },
        "hidden_act": "silu",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "tie_word_embeddings": False,
        "use_cache": True,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "pad_token_id": PAD_ID,
    }
    fields.update(overrides)
    fields["num_hidden_layers"] = len(fields["compress_ratios"])
    return fields


def save_config(fields: dict, out: Path) -> None:
    """Write ``config.json`` and a greedy ``generation_config.json``."""
    (out / "config.json").write_text(json.dumps(fields, indent=2) + "\n")
    generation = {
        "bos_token_id": fields["bos_token_id"],
        "eos_token_id": fields["eos_token_id"],
        "pad_token_id": fields["pad_token_id"],
        "do_sample": False,
    }
    (out / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")
