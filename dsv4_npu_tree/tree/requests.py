"""Requests that tree verification cannot serve exactly, each with its reason.

What is not listed here was read through SGLang 0.5.23 and holds for trees as it does for one token at a time:
temperature, top-k, top-p, logit_bias, stop rules, n > 1, logprobs (gathered by accept_index), hidden states (compacted
to the accepted path), input embeddings (prompt only). Beam search and return_sampling_mask are turned down by SGLang
itself. Penalties and min_new_tokens work as SGLang prepares them for speculation, chain or tree: once a round, by that
round's last token. A request's seed has no effect, as in SGLang without deterministic inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_GRAMMARS = ("json_schema", "regex", "ebnf", "structural_tag")


def refuse(
    sampling: Any,
    *,
    custom_logit_processor: bool = False,
    return_routed_experts: bool = False,
    return_indexer_topk: bool = False,
    input_ids: Sequence[int] | None = None,
    vocab_size: int | None = None,
) -> str | None:
    """The reason why a request cannot be served exactly by tree verification, or None if it can.

    sampling: an object with the fields of SGLang's `SamplingParams`; a missing field means the default. The flags are
    those of the request. input_ids: prompt tokens; SGLang hands them to the embedding unchecked, and one outside
    `vocab_size` would end the scheduler.
    """
    min_p = getattr(sampling, "min_p", 0.0)
    if min_p > 0:
        return f"min_p={min_p} is ignored by SGLang's tree verification; use top_p or top_k"
    if getattr(sampling, "watermark", None) is not None:
        return "watermark needs the full attention mask of the tree, which is not built; leave it out"
    if custom_logit_processor:
        return "custom_logit_processor is not applied by SGLang's tree verification; use logit_bias or a grammar"
    if return_routed_experts:
        return "return_routed_experts would report rejected tree nodes: records stay in draft order; leave it out"
    if return_indexer_topk:
        return "return_indexer_topk would report rejected tree nodes: records stay in draft order; leave it out"
    wanted = [name for name in _GRAMMARS if getattr(sampling, name, None) is not None]
    if wanted:
        return f"{wanted[0]}: constrained decoding is not shown to work with tree speculation; leave it out"
    if input_ids is not None and vocab_size is not None:
        outside = next((token for token in input_ids if not 0 <= token < vocab_size), None)
        if outside is not None:
            return f"token id {outside} is outside the vocabulary; use ids from 0 to {vocab_size - 1}"
    return None
