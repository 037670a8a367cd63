#include "fallback.h"

#include <torch/library.h>

#include <atomic>
#include <map>
#include <mutex>

namespace npu_twin {
namespace {

std::atomic<bool> counting{false};
std::mutex counts_lock;
std::map<std::string, int64_t> counts;

void count(const c10::OperatorHandle& op) {
    const auto& name = op.operator_name();
    std::lock_guard<std::mutex> hold(counts_lock);
    counts[name.overload_name.empty() ? name.name : name.name + "." + name.overload_name]++;
}

void to_cpu(c10::IValue& value, Shadows& shadows) {
    if (value.isTensor()) {
        const auto& tensor = value.toTensor();
        if (is_npu(tensor)) {
            value = c10::IValue(shadows.of(tensor));
        }
    } else if (value.isTensorList()) {
        auto tensors = value.toTensorVector();
        for (auto& tensor : tensors) {
            tensor = shadows.of(tensor);
        }
        value = c10::IValue(c10::List<at::Tensor>(tensors));
    } else if (value.isOptionalTensorList()) {
        auto tensors = value.toOptionalTensorList();
        c10::List<std::optional<at::Tensor>> moved;
        moved.reserve(tensors.size());
        for (size_t i = 0; i < tensors.size(); ++i) {
            std::optional<at::Tensor> tensor = tensors.get(i);
            if (tensor.has_value() && tensor->defined()) {
                moved.push_back(shadows.of(*tensor));
            } else {
                moved.push_back(std::nullopt);
            }
        }
        value = c10::IValue(moved);
    } else if (value.isDevice() && value.toDevice().type() == c10::DeviceType::PrivateUse1) {
        shadows.prefer(value.toDevice());
        value = c10::IValue(c10::Device(c10::DeviceType::CPU));
    }
}

void to_npu(c10::IValue& value, Shadows& shadows) {
    if (value.isTensor()) {
        value = c10::IValue(shadows.result(value.toTensor()));
    } else if (value.isTensorList()) {
        auto tensors = value.toTensorVector();
        for (auto& tensor : tensors) {
            tensor = shadows.result(tensor);
        }
        value = c10::IValue(c10::List<at::Tensor>(tensors));
    }
}

}  // namespace

void set_counting(bool on) { counting = on; }

std::vector<std::pair<std::string, int64_t>> op_counts() {
    std::lock_guard<std::mutex> hold(counts_lock);
    return {counts.begin(), counts.end()};
}

void arguments_to_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, Shadows& shadows) {
    if (counting) {
        count(op);
    }
    for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i) {
        to_cpu((*stack)[i], shadows);
    }
}

void results_to_npu(const c10::OperatorHandle& op, torch::jit::Stack* stack, Shadows& shadows) {
    shadows.write_back();
    for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
        to_npu((*stack)[i], shadows);
    }
}

void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    Shadows shadows;
    arguments_to_cpu(op, stack, shadows);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    results_to_npu(op, stack, shadows);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>()); }

}  // namespace npu_twin
