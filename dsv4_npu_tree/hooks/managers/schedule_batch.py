"""sglang.srt.managers.schedule_batch: a request ends at the first token that ends it, also inside an accepted path.

SGLang looks through the whole path for one way to end after the other: the stop string that is first in the request's
list wins over the one that is first in the text, and any stop string over a stop token before it.
"""

from __future__ import annotations

from dsv4_npu_tree.hooks.registry import Hook


def _update_finish_state(original, self, new_accepted_len=1):
    """Check the path token by token, as if each had been decoded alone."""
    if new_accepted_len < 2 or self.finished() or self.to_finish:
        return original(self, new_accepted_len)
    output = self.output_ids
    path = output[-new_accepted_len:]
    del output[-new_accepted_len:]
    for place, token in enumerate(path, 1):
        output.append(token)
        original(self, 1)
        if self.finished():
            if self.finished_len is None:
                self.finished_len = len(output)
            output.extend(path[place:])  # the rest has KV; SGLang cuts at finished_len what it returns
            return None
    return None


HOOKS = [
    Hook(
        "sglang.srt.managers.schedule_batch.Req.update_finish_state",
        ("self", "new_accepted_len"),
        _update_finish_state,
    )
]
