"""What a request may ask for under tree speculation, checked against SGLang's own parameter and verify code."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch
from generators import Case, encode

from dsv4_npu_tree.hooks.managers import tokenizer_manager as tokenizer_hook
from dsv4_npu_tree.hooks.registry import Hook
from dsv4_npu_tree.hooks.speculative import verify_sampling as sampling_hook
from dsv4_npu_tree.tree.requests import refuse

SamplingParams = pytest.importorskip("sglang.srt.sampling.sampling_params").SamplingParams


def normalised(**fields) -> object:
    """SamplingParams as a request leaves the tokenizer process."""
    params = SamplingParams(**fields)
    params.normalize(SimpleNamespace(encode=lambda text, add_special_tokens=False: [5] * len(text)))
    params.verify(1000)
    return params


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"temperature": 0},
        {"temperature": 0.7, "top_k": 5, "top_p": 0.9},
        {"logit_bias": {"3": 1.5}, "n": 4, "sampling_seed": 7, "max_new_tokens": 3},
        {"stop": "x", "stop_token_ids": [5], "ignore_eos": True},
    ],
)
def test_exact_requests_are_served(fields):
    assert refuse(normalised(**fields), input_ids=[0, 7, 999], vocab_size=1000) is None


@pytest.mark.parametrize(
    ("fields", "flags", "named"),
    [
        ({"min_p": 0.1}, {}, "min_p=0.1"),
        ({}, {"custom_logit_processor": True}, "custom_logit_processor"),
        ({}, {"return_routed_experts": True}, "return_routed_experts"),
        ({}, {"return_indexer_topk": True}, "return_indexer_topk"),
        ({"regex": "a+"}, {}, "regex"),
        ({"json_schema": "{}"}, {}, "json_schema"),
        ({"ebnf": 'root ::= "a"'}, {}, "ebnf"),
    ],
)
def test_inexact_requests_are_refused_with_value_and_remedy(fields, flags, named):
    reason = refuse(normalised(**fields), **flags)
    assert reason is not None and named in reason and ";" in reason
    assert refuse(normalised(), **({} if fields else dict.fromkeys(flags, False))) is None


@pytest.mark.parametrize("token", [-1, 1000, 99999999])
def test_tokens_outside_the_vocabulary_are_refused(token):
    reason = refuse(normalised(), input_ids=[5, token], vocab_size=1000)
    assert reason is not None and str(token) in reason and "999" in reason


def test_watermark_is_refused():
    assert "watermark" in refuse(SimpleNamespace(watermark=object()))


@pytest.mark.parametrize(
    "fields",
    [{"frequency_penalty": 0.2}, {"presence_penalty": -0.2}, {"repetition_penalty": 1.1}, {"min_new_tokens": 4}],
)
def test_penalties_are_served_as_sglang_prepares_them(fields):
    assert refuse(normalised(**fields)) is None
    assert refuse(normalised(min_p=0.1, **fields)) is not None


def test_missing_fields_mean_defaults():
    assert refuse(SimpleNamespace()) is None


def tokenized(**fields) -> SimpleNamespace:
    flags = {"custom_logit_processor": None, "return_routed_experts": False, "return_indexer_topk": False}
    known = {name: fields.pop(name) for name in list(fields) if name in flags}
    return SimpleNamespace(sampling_params=normalised(**fields), input_ids=[1, 2], **(flags | known))


MANAGER = SimpleNamespace(model_config=SimpleNamespace(vocab_size=1000))


def test_hook_passes_and_refuses():
    around = tokenizer_hook.create_tokenized_object
    fine = tokenized()
    assert around(lambda manager, obj: fine, MANAGER, "obj") is fine
    with pytest.raises(ValueError, match=r"min_p=0.2 is ignored"):
        around(lambda manager, obj: tokenized(min_p=0.2), MANAGER, "obj")
    with pytest.raises(ValueError, match="custom_logit_processor"):
        around(lambda manager, obj: tokenized(custom_logit_processor="{}"), MANAGER, "obj")
    embedding = SimpleNamespace(sampling_params=normalised())
    assert around(lambda manager, obj: embedding, MANAGER, "obj") is embedding


def test_hook_sees_what_upstream_really_builds(monkeypatch):
    """Upstream's own _create_tokenized_object, with a min_p that only the server's preferred parameters carry."""
    module = pytest.importorskip("sglang.srt.managers.tokenizer_manager")
    io_struct = pytest.importorskip("sglang.srt.managers.io_struct")
    monkeypatch.setattr(module, "get_disagg", lambda: SimpleNamespace(disaggregation_transfer_backend="none"))
    monkeypatch.setattr(module, "_validate_watermark_request", lambda params: None)
    clock = SimpleNamespace(set_tokenize_finish_time=lambda: None)
    manager = SimpleNamespace(
        preferred_sampling_params=None,
        sampling_params_class=SamplingParams,
        tokenizer=None,
        model_config=SimpleNamespace(vocab_size=1000),
        tokenized_generate_req_type=io_struct.TokenizedGenerateReqInput,
        server_args=SimpleNamespace(grammar_backend="xgrammar"),
        rid_to_state=defaultdict(lambda: SimpleNamespace(time_stats=clock)),
    )
    original = module.TokenizerManager._create_tokenized_object
    request = io_struct.GenerateReqInput(input_ids=[1, 2], sampling_params={"temperature": 1.0})
    request.normalize_batch_and_arguments()
    call = lambda: tokenizer_hook.create_tokenized_object(original, manager, request, None, [1, 2])  # noqa: E731
    assert call().sampling_params.temperature == 1.0
    manager.preferred_sampling_params = {"min_p": 0.3}
    with pytest.raises(ValueError, match=r"min_p=0.3"):
        call()
    manager.preferred_sampling_params = None
    request.return_routed_experts = True
    with pytest.raises(ValueError, match="return_routed_experts"):
        call()


def test_a_refusal_is_http_400():
    http_server = pytest.importorskip("sglang.srt.entrypoints.http_server")
    response = http_server._create_error_response(ValueError("min_p=0.1 is ignored"))
    assert response.status_code == 400 and b"min_p=0.1" in response.body


@pytest.mark.parametrize("hook", tokenizer_hook.HOOKS, ids=lambda hook: hook.target)
def test_hook_targets_have_the_signature_they_were_written_for(hook):
    assert isinstance(hook, Hook)
    hook.verify()


def test_hooks_do_nothing_while_the_backend_is_another():
    for hook in tokenizer_hook.HOOKS:
        assert hook.wrapper()(lambda *args, **kwargs: (args, kwargs), 1, two=2) == ((1,), {"two": 2})


def test_sampling_functions_are_ours_only_when_active(monkeypatch):
    eagle_utils = pytest.importorskip("sglang.srt.speculative.eagle_utils")
    names = ("tree_speculative_sampling_target_only", "top_k_renorm_prob", "top_p_renorm_prob")
    for name, shipped in zip(names, (None, torch, len)):  # missing, a module where a function was meant, a kernel
        monkeypatch.setattr(eagle_utils, name, shipped)
    monkeypatch.setattr(sampling_hook, "tree_active", lambda: False)
    sampling_hook.install()
    assert [getattr(eagle_utils, name) for name in names] == [None, torch, len]
    monkeypatch.setattr(sampling_hook, "tree_active", lambda: True)
    sampling_hook.install()
    assert all(getattr(eagle_utils, name).__module__.startswith("dsv4_npu_tree") for name in names)
    probs = eagle_utils.top_k_renorm_prob(torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([2]))
    assert torch.allclose(probs, torch.tensor([[2 / 3, 1 / 3, 0]]))


def small_topology():
    """Root with children 1, 2; 3 under 2; 4 inert."""
    parent_list, selected = encode([[1, 2], [], [3], []], topk=2, steps=2)
    return Case(2, 2, 5, 4, [parent_list], [[*selected, 99]], [[0.5] * 4], [8]).topology()


def test_logprobs_follow_the_accepted_path():
    """return_logprob is served: upstream gathers by accept_index, which for a tree is not the chain order."""
    processor = pytest.importorskip("sglang.srt.layers.logprob_processor")
    logits = torch.randn(10, 7)
    predict = torch.arange(10, dtype=torch.int32) % 7
    accept_index = torch.tensor([[0, 2, 3], [5, -1, -1]], dtype=torch.int32)
    batch = SimpleNamespace(
        seq_lens=torch.tensor([4, 4]),
        sampling_info=SimpleNamespace(is_all_greedy=True),
        top_logprobs_nums=[2, 0],
        token_ids_logprobs=None,
    )
    output = SimpleNamespace(next_token_logits=logits)
    processor.compute_spec_logprobs(batch, output, predict, accept_index=accept_index)
    expected = logits.log_softmax(-1)
    for column, node in enumerate((0, 2, 3)):
        assert output.next_token_logprobs[0, column] == expected[node, int(predict[node])]
        top = torch.as_tensor(output.next_token_top_logprobs_val[column])
        assert torch.allclose(top.float(), expected[node].topk(2).values)
    assert output.next_token_logprobs[1, 0] == expected[5, int(predict[5])]


class Alternating:
    """A grammar object that allows token 1 after an even and token 2 after an odd number of tokens."""

    def __init__(self) -> None:
        self.accepted: list[int] = []
        self.filled: dict[int, list[int]] = {}

    def accept_token(self, token: int) -> None:
        self.accepted.append(token)

    def rollback(self, count: int) -> None:
        del self.accepted[-count:]

    def is_terminated(self) -> bool:
        return False

    def fill_vocab_mask(self, mask: torch.Tensor, row: int) -> None:
        self.filled[row] = list(self.accepted)
        mask[row] = 1 << (1 + len(self.accepted) % 2)


def test_grammar_masks_follow_the_links():
    """Grammars are served: upstream's traversal fills each allowed node's row from its own path, inert ones never."""
    spec_utils = pytest.importorskip("sglang.srt.speculative.spec_utils")
    topology, grammar = small_topology(), Alternating()
    mask = torch.full((5, 1), -1, dtype=torch.int32)
    tokens = torch.tensor([9, 2, 1, 2, 1])  # node 1 is not allowed, node 2 and its child 3 are
    spec_utils.traverse_tree(
        topology.retrieve_next_token[0], topology.retrieve_next_sibling[0], tokens, grammar, mask, vocab_size=7
    )
    assert grammar.filled == {0: [], 2: [1], 3: [1, 2]} and grammar.accepted == []
    assert mask.view(-1).tolist() == [2, -1, 4, 2, -1]


def test_a_round_counts_one_token_for_penalties():
    """What SGLang prepares, chain or tree: a round adds its last token to the counts, however many it emitted."""
    schedule_batch = pytest.importorskip("sglang.srt.managers.schedule_batch")
    counted = []
    batch = SimpleNamespace(
        reqs=[SimpleNamespace(output_ids=[3, 4, 5], origin_input_ids=[1])],
        device="cpu",
        sampling_info=SimpleNamespace(penalizer_orchestrator=SimpleNamespace(cumulate_output_tokens=counted.append)),
    )
    schedule_batch.ScheduleBatch.cumulate_penalty_output_tokens(batch)
    assert [tokens.tolist() for tokens in counted] == [[5]]
