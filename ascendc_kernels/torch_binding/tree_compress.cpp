// torch.ops.dsv4_tree_npu.tree_compress: what torch.ops.dsv4_tree.tree_compress runs for npu tensors. Shapes and dtypes
// are checked by ops/tree_compress.py.
#include "../tree_compress/op_host/tree_compress.h"

#include "launch.h"

namespace dsv4::torch_binding {

namespace {

struct TreeCompressWork {
    at::Tensor scratch, state, window, closes, norm_weight, cos, sin, out;
    int64_t coff;
    double norm_eps;

    TreeCompressArgs args() const {
        TreeCompressArgs args{};
        args.scratch = scratch.data_ptr<float>();
        args.state = state.data_ptr<float>();
        args.window = window.data_ptr<int64_t>();
        args.closes = static_cast<const uint8_t*>(data(closes));
        args.norm_weight = norm_weight.data_ptr<float>();
        args.cos = cos.data_ptr<float>();
        args.sin = sin.data_ptr<float>();
        args.out = data(out);
        args.rows = window.size(0);
        args.state_rows = state.size(0);
        args.dim = norm_weight.size(0);
        args.coff = coff;
        args.ratio = window.size(1) / coff;
        args.rope = cos.size(1);
        args.norm_eps = norm_eps;
        args.mode = TREE_COMPRESS_FP32;  // the accuracy of the card's own compressor
        return args;
    }
};

at::Tensor tree_compress(const at::Tensor& scratch, const at::Tensor& state, const at::Tensor& window,
                         const at::Tensor& closes, const at::Tensor& norm_weight, const at::Tensor& cos,
                         const at::Tensor& sin, int64_t coff, double norm_eps) {
    auto work = std::make_shared<TreeCompressWork>();
    work->scratch = scratch.contiguous();
    work->state = state.contiguous();
    work->window = window.contiguous();
    work->closes = closes.contiguous();
    work->norm_weight = norm_weight.contiguous();
    work->cos = cos.contiguous();
    work->sin = sin.contiguous();
    work->out = at::empty({window.size(0), norm_weight.size(0)}, scratch.options().dtype(at::kBFloat16));
    work->coff = coff;
    work->norm_eps = norm_eps;
    if (window.size(0) > 0) launch("dsv4_tree_compress", dsv4_tree_compress, work);
    return work->out;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(dsv4_tree_npu, m) {
    m.def(
        "tree_compress(Tensor scratch, Tensor state, Tensor window, Tensor closes, Tensor norm_weight, "
        "Tensor cos, Tensor sin, int coff, float norm_eps) -> Tensor");
}

TORCH_LIBRARY_IMPL(dsv4_tree_npu, PrivateUse1, m) { m.impl("tree_compress", &tree_compress); }

}  // namespace dsv4::torch_binding
