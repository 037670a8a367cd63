// Zero-copy views of npu tensors as CPU tensors and back.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "memory.h"

namespace npu_twin {

bool is_npu(const at::Tensor& tensor);

// A tensor of the other device over the same bytes; sizes, strides, offset and conj/neg bits are kept.
at::Tensor cpu_view(const at::Tensor& tensor);
at::Tensor npu_view(const at::Tensor& tensor);

// The CPU shadows of one call's npu arguments. Two arguments over one storage get shadows over one storage,
// the same tensor given twice gets one shadow, so aliasing inside a call is what it was on the npu side.
class Shadows {
 public:
    at::Tensor of(const at::Tensor& tensor);
    // After the call: hand resizes and restrides of shadows back to their npu tensors.
    void write_back();
    // The npu tensor for a result: the argument itself, a view of an argument, or a fresh alias.
    at::Tensor result(const at::Tensor& tensor);
    // Device of fresh results: that of the first npu argument, else the current one.
    void prefer(c10::Device device);

 private:
    std::optional<c10::Device> device_;
    std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;       // npu, cpu
    std::vector<std::pair<c10::Storage, c10::Storage>> storages_;  // npu, cpu
};

}  // namespace npu_twin
