// Boxed kernels that run an op on the CPU.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>
#include <vector>

#include "alias.h"

namespace npu_twin {

// Run an op's CPU kernel on CPU shadows of its npu arguments. Kernel of every op that has no other.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// The two halves of it: arguments on top of the stack become CPU values, results become npu values.
void arguments_to_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack, Shadows& shadows);
void results_to_npu(const c10::OperatorHandle& op, torch::jit::Stack* stack, Shadows& shadows);

// Calls per op since counting was switched on.
void set_counting(bool on);
std::vector<std::pair<std::string, int64_t>> op_counts();

}  // namespace npu_twin
