"""The same checkpoint in SGLang on the twin (bf16, quantised index keys) and in HF transformers (fp32)."""

import torch
from fleet import greedy
from prompts import prompt

TOP = 5
# bf16 weights and activations against fp32; a wrong layer kind, rope or routing is off by whole units.
MEDIAN, LARGEST = 0.03, 0.25


def test_prefill_logprobs_agree_with_transformers(fleet):
    from tools.tiny_checkpoint import MODEL_DIR, hf_model

    chosen = prompt(300)
    answer = greedy(
        fleet["plain"], chosen, new_tokens=1, return_logprob=True, top_logprobs_num=TOP, logprob_start_len=0
    )
    with torch.no_grad():
        logits = hf_model(MODEL_DIR)(torch.tensor([list(chosen.ids)])).logits[0].float()
    expected = logits.log_softmax(-1)
    rows = answer["meta_info"]["input_top_logprobs"][1:] + answer["meta_info"]["output_top_logprobs"][:1]
    assert len(rows) == len(chosen)
    errors = torch.tensor(
        [abs(value - float(expected[row, token])) for row, top in enumerate(rows) for value, token, *_ in top]
    )
    print(f"{errors.numel()} logprobs: median {errors.median():.4f}, largest {errors.max():.4f}")
    assert errors.numel() == TOP * len(chosen)
    assert errors.median() < MEDIAN and errors.max() < LARGEST
    best = torch.tensor([top[0][1] for top in rows])
    assert (best == expected.argmax(-1)).float().mean() > 0.97
