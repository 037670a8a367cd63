// torch.ops.dsv4_tree_npu.tree_verify_greedy: what torch.ops.dsv4_tree.tree_verify_greedy runs for npu tensors. Shapes
// and dtypes are checked by ops/tree_verify_greedy.py.
#include "../tree_verify_greedy/op_host/tree_verify_greedy.h"

#include "launch.h"

namespace dsv4::torch_binding {

namespace {

struct TreeVerifyGreedyWork {
    std::array<at::Tensor, 8> tensors;  // in the order of the C ABI
    int64_t bs, n, columns;

    TreeVerifyGreedyArgs args() const {
        TreeVerifyGreedyArgs args{};
        args.predicts = data(tensors[0]);
        args.accept_index = data(tensors[1]);
        args.accept_token_num = data(tensors[2]);
        args.candidates = data(tensors[3]);
        args.retrieve_index = data(tensors[4]);
        args.retrieve_next_token = data(tensors[5]);
        args.retrieve_next_sibling = data(tensors[6]);
        args.target_predict = data(tensors[7]);
        for (size_t i = 0; i < tensors.size(); ++i) args.element_bytes[i] = tensors[i].element_size();
        args.bs = bs;
        args.n = n;
        args.columns = columns;
        return args;
    }
};

void tree_verify_greedy(const at::Tensor& predicts, const at::Tensor& accept_index, const at::Tensor& accept_token_num,
                        const at::Tensor& candidates, const at::Tensor& retrieve_index,
                        const at::Tensor& retrieve_next_token, const at::Tensor& retrieve_next_sibling,
                        const at::Tensor& target_predict) {
    if (candidates.size(0) == 0) return;
    const Written written[] = {Written(predicts), Written(accept_index), Written(accept_token_num)};
    auto work = std::make_shared<TreeVerifyGreedyWork>();
    work->tensors = {written[0].whole,
                     written[1].whole,
                     written[2].whole,
                     candidates.contiguous(),
                     retrieve_index.contiguous(),
                     retrieve_next_token.contiguous(),
                     retrieve_next_sibling.contiguous(),
                     target_predict.contiguous()};
    work->bs = candidates.size(0);
    work->n = candidates.size(1);
    work->columns = accept_index.size(1);
    launch("dsv4_tree_verify_greedy", dsv4_tree_verify_greedy, work);
    for (const Written& one : written) one.copy_back();
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(dsv4_tree_npu, m) {
    m.def(
        "tree_verify_greedy(Tensor(a!) predicts, Tensor(b!) accept_index, Tensor(c!) accept_token_num, "
        "Tensor candidates, Tensor retrieve_index, Tensor retrieve_next_token, Tensor retrieve_next_sibling, "
        "Tensor target_predict) -> ()");
}

TORCH_LIBRARY_IMPL(dsv4_tree_npu, PrivateUse1, m) { m.impl("tree_verify_greedy", &tree_verify_greedy); }

}  // namespace dsv4::torch_binding
