"""Turn a request down before it is scheduled if tree verification would serve it wrongly.

The hook sits on `TokenizerManager._create_tokenized_object`: every generate request passes it, alone or in a batch,
with its sampling parameters merged with the server's preferred ones and normalised. A ValueError there is raised inside
`generate_request`, whose clean-up drops the request's state; /generate and the OpenAI routes answer HTTP 400 (a
streaming /generate reports code 400 in its first event), `Engine.generate` raises it. Nothing has reached the scheduler
by then.
"""

from __future__ import annotations

from typing import Any

from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.tree.requests import refuse


def create_tokenized_object(original: Any, manager: Any, *args: Any, **kwargs: Any) -> Any:
    """Around `_create_tokenized_object`: the tokenized request, or ValueError with the reason of a refusal."""
    tokenized = original(manager, *args, **kwargs)
    if not hasattr(tokenized, "return_routed_experts"):  # an embedding request: nothing is verified
        return tokenized
    reason = refuse(
        tokenized.sampling_params,
        custom_logit_processor=bool(tokenized.custom_logit_processor),
        return_routed_experts=bool(tokenized.return_routed_experts),
        return_indexer_topk=bool(tokenized.return_indexer_topk),
        input_ids=_flat(tokenized.input_ids),
        vocab_size=manager.model_config.vocab_size,
    )
    if reason is not None:
        raise ValueError(reason)
    return tokenized


def _flat(input_ids: Any) -> list[int] | None:
    """Prompt tokens as a list; None where the prompt is given by embeddings."""
    return None if input_ids is None else list(input_ids)


HOOKS = [
    Hook(
        "sglang.srt.managers.tokenizer_manager.TokenizerManager._create_tokenized_object",
        ("self", "obj", "input_text", "input_ids", "input_embeds", "mm_inputs", "token_type_ids"),
        create_tokenized_object,
    ),
]
