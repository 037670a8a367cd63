"""Plain `dsv4` with the plugin installed is plain `dsv4`."""

from fleet import greedy
from prompts import prompt


def test_bit_identical_without_the_plugin(fleet):
    fleet.warm("plain", "without plugin")
    for p in (prompt(9, 33_000), prompt(140, 34_000)):
        answers = []
        for name in ("plain", "without plugin"):
            fleet[name].flush()
            answer = greedy(fleet[name], p, 24, return_logprob=True, top_logprobs_num=5)
            meta = answer["meta_info"]
            answers.append((answer["output_ids"], meta["output_token_logprobs"], meta["output_top_logprobs"]))
        assert answers[0] == answers[1]
    fleet.retire("without plugin")
