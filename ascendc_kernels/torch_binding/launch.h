// How a torch op on npu tensors starts a kernel: through torch_npu's task queue, on the current stream.
#pragma once

#include <ATen/ATen.h>
#include <torch/library.h>

#include <array>
#include <memory>
#include <utility>

#include "abi.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/OpCommand.h"

namespace dsv4::torch_binding {

// Calls `entry`, one of the C ABI's dsv4_<op>(args, stream, error, size), on the queue. `work` holds the arguments and
// everything that they point to; `work->args()` is called when the kernel starts.
template <typename Work, typename Entry>
void launch(const char* op, Entry entry, std::shared_ptr<Work> work) {
    void* stream = c10_npu::getCurrentNPUStream().stream(false);
    at_npu::native::OpCommand::RunOpApi(op, [op, entry, work = std::move(work), stream]() -> int {
        std::array<char, 512> error{};
        const auto args = work->args();
        const int status = entry(&args, stream, error.data(), error.size());
        TORCH_CHECK(status == DSV4_OK, op, ": ", error.data(), " (status ", status, ")");
        return status;
    });
}

inline void* data(const at::Tensor& tensor) { return tensor.data_ptr(); }

// A contiguous tensor that a kernel writes instead of `tensor`; `copy_back` brings the values there.
struct Written {
    explicit Written(const at::Tensor& given) : tensor(given), whole(given.contiguous()) {}
    void copy_back() const {
        if (!whole.is_same(tensor)) tensor.copy_(whole);
    }

    at::Tensor tensor;
    at::Tensor whole;
};

}  // namespace dsv4::torch_binding
