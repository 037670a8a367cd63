// torch.ops.dsv4_tree_npu.tree_build: what torch.ops.dsv4_tree.tree_build runs for npu tensors. Shapes and dtypes are
// checked by ops/tree_build.py.
#include "../tree_build/op_host/tree_build.h"

#include <optional>
#include <tuple>

#include "launch.h"

namespace dsv4::torch_binding {

namespace {

using Outputs = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor,
                           at::Tensor, at::Tensor>;

struct TreeBuildWork {
    at::Tensor parent_list, selected, scores, seq_lens;
    at::Tensor positions, retrieve_index, next_token, next_sibling, parent, depth, ancestors, branch_table, home;
    at::Tensor mask;  // undefined if none is written
    int64_t mask_mode, topk, steps, n, max_branches;

    TreeBuildArgs args() const {
        TreeBuildArgs args{};
        args.parent_list = data(parent_list);
        args.selected = data(selected);
        args.scores = static_cast<const float*>(data(scores));
        args.seq_lens = data(seq_lens);
        args.positions = positions.data_ptr<int64_t>();
        args.retrieve_index = retrieve_index.data_ptr<int64_t>();
        args.next_token = next_token.data_ptr<int64_t>();
        args.next_sibling = next_sibling.data_ptr<int64_t>();
        args.parent = parent.data_ptr<int32_t>();
        args.depth = depth.data_ptr<int32_t>();
        args.ancestors = ancestors.data_ptr<int64_t>();
        args.branch_table = branch_table.data_ptr<int32_t>();
        args.home_branch = home.data_ptr<int32_t>();
        args.mask = mask.defined() ? data(mask) : nullptr;
        args.mask_bytes = mask.defined() ? static_cast<int64_t>(mask.nbytes()) : 0;
        args.mask_mode = mask_mode;
        args.parent_list_bytes = parent_list.element_size();
        args.selected_bytes = selected.element_size();
        args.seq_lens_bytes = seq_lens.element_size();
        args.bs = seq_lens.size(0);
        args.topk = topk;
        args.steps = steps;
        args.n = n;
        args.max_branches = max_branches;
        return args;
    }
};

Outputs tree_build(const at::Tensor& parent_list, const at::Tensor& selected, const at::Tensor& scores,
                   const at::Tensor& seq_lens, int64_t topk, int64_t steps, int64_t n, int64_t max_branches,
                   const std::optional<at::Tensor>& mask, int64_t mask_mode) {
    const int64_t bs = seq_lens.size(0);
    const auto wide = seq_lens.options().dtype(at::kLong), narrow = seq_lens.options().dtype(at::kInt);
    auto work = std::make_shared<TreeBuildWork>();
    work->parent_list = parent_list.contiguous();
    work->selected = selected.contiguous();
    work->scores = scores.contiguous();
    work->seq_lens = seq_lens.contiguous();
    work->positions = at::empty({bs * n}, wide);
    work->retrieve_index = at::empty({bs, n}, wide);
    work->next_token = at::empty({bs, n}, wide);
    work->next_sibling = at::empty({bs, n}, wide);
    work->parent = at::empty({bs, n}, narrow);
    work->depth = at::empty({bs, n}, narrow);
    work->ancestors = at::empty({bs, n}, wide);
    work->branch_table = at::empty({bs, max_branches, steps + 1}, narrow);
    work->home = at::empty({bs, n}, narrow);
    if (mask.has_value()) work->mask = *mask;
    work->mask_mode = mask_mode;
    work->topk = topk;
    work->steps = steps;
    work->n = n;
    work->max_branches = max_branches;
    if (bs > 0) launch("dsv4_tree_build", dsv4_tree_build, work);
    return {work->positions, work->retrieve_index, work->next_token,   work->next_sibling, work->parent,
            work->depth,     work->ancestors,      work->branch_table, work->home};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(dsv4_tree_npu, m) {
    m.def(
        "tree_build(Tensor parent_list, Tensor selected_index, Tensor scores, Tensor seq_lens, int topk, int "
        "steps, int num_draft_tokens, int max_branches, *, Tensor(a!)? mask=None, int mask_mode=-1) -> "
        "(Tensor positions, Tensor retrieve_index, Tensor retrieve_next_token, Tensor retrieve_next_sibling, "
        "Tensor parent, Tensor depth, Tensor ancestors, Tensor branch_table, Tensor home_branch)");
}

TORCH_LIBRARY_IMPL(dsv4_tree_npu, PrivateUse1, m) { m.impl("tree_build", &tree_build); }

}  // namespace dsv4::torch_binding
