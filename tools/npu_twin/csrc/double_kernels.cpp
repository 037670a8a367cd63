// Row invariance. CPU kernels in bf16/fp32 choose vector width, blocking and accumulation order from the shape of the
// whole call, so a row's bits would depend on its neighbours. The ops below are computed in double and rounded once.
#include <torch/library.h>

#include "fallback.h"

namespace npu_twin {
namespace {

bool is_narrow(at::ScalarType dtype) { return at::isFloatingType(dtype) && dtype != at::kDouble; }

bool is_narrow(const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && is_narrow(value.toTensor().scalar_type());
}

// A tensor that the op writes: self of an in-place op, an out= argument.
struct Written {
    at::Tensor target;
    at::Tensor wide;
};

// One call on CPU values. Widens the arguments in place on the stack, narrows the results.
class Widened {
 public:
    Widened(const c10::OperatorHandle& op, torch::jit::Stack* stack)
        : schema_(op.schema()), stack_(stack), first_(stack->size() - schema_.arguments().size()) {}

    // Whether anything is to be widened: a floating argument, or an asked-for floating result.
    bool needed() const {
        for (size_t i = 0; i < schema_.arguments().size(); ++i) {
            const auto& value = (*stack_)[first_ + i];
            if (is_narrow(value) ||
                (is_dtype(i) && value.isInt() && is_narrow(static_cast<at::ScalarType>(value.toInt())))) {
                return true;
            }
        }
        return false;
    }

    void widen() {
        for (size_t i = 0; i < schema_.arguments().size(); ++i) {
            auto& value = (*stack_)[first_ + i];
            if (is_dtype(i) && value.isInt()) {
                asked_ = static_cast<at::ScalarType>(value.toInt());
                if (at::isFloatingType(*asked_)) {
                    value = c10::IValue(static_cast<int64_t>(at::kDouble));
                }
            } else if (is_narrow(value)) {
                const at::Tensor tensor = value.toTensor();
                const auto* alias = schema_.arguments()[i].alias_info();
                const at::Tensor wide = tensor.to(at::kDouble);
                if (alias != nullptr && alias->isWrite()) {
                    written_.push_back({tensor, wide});
                }
                promote(tensor);
                value = c10::IValue(wide);
            }
        }
    }

    void narrow() {
        for (auto& [target, wide] : written_) {
            if (target.sizes() != wide.sizes()) {
                target.resize_(wide.sizes());
            }
            target.copy_(wide);
        }
        for (size_t i = stack_->size() - schema_.returns().size(); i < stack_->size(); ++i) {
            auto& value = (*stack_)[i];
            if (!value.isTensor() || !value.toTensor().defined()) {
                continue;
            }
            const at::Tensor result = value.toTensor();
            const Written* home = nullptr;
            for (auto& written : written_) {
                if (result.is_same(written.wide)) {
                    home = &written;
                }
            }
            if (home != nullptr) {
                value = c10::IValue(home->target);
            } else if (result.scalar_type() == at::kDouble) {
                value = c10::IValue(result.to(asked_.value_or(rounded_.value_or(at::kFloat))));
            }
        }
    }

 private:
    bool is_dtype(size_t i) const {
        const auto& name = schema_.arguments()[i].name();
        return name == "dtype" || name == "out_dtype";
    }

    // Type promotion of torch: tensors with dimensions outrank scalar tensors.
    void promote(const at::Tensor& tensor) {
        const bool scalar = tensor.dim() == 0;
        if (!rounded_ || (scalar_only_ && !scalar)) {
            rounded_ = tensor.scalar_type();
        } else if (scalar == scalar_only_) {
            rounded_ = c10::promoteTypes(*rounded_, tensor.scalar_type());
        }
        scalar_only_ = scalar_only_ && scalar;
    }

    const c10::FunctionSchema& schema_;
    torch::jit::Stack* stack_;
    size_t first_;
    std::vector<Written> written_;
    std::optional<at::ScalarType> asked_;
    std::optional<at::ScalarType> rounded_;
    bool scalar_only_ = true;
};

void run_in_double(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    Shadows shadows;
    arguments_to_cpu(op, stack, shadows);
    Widened call(op, stack);
    const bool needed = call.needed();
    if (needed) {
        call.widen();
    }
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    if (needed) {
        call.narrow();
    }
    results_to_npu(op, stack, shadows);
}

// x + alpha * y: one rounding with alpha 1; otherwise vector code may fuse where the tail does not.
void run_scaled_sum(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const auto& arguments = op.schema().arguments();
    const size_t first = stack->size() - arguments.size();
    for (size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].name() == "alpha" && !(*stack)[first + i].toScalar().equal(1)) {
            run_in_double(op, stack);
            return;
        }
    }
    run_on_cpu(op, stack);
}

const char* const kInDouble[] = {
    // products
    "mm",
    "mm.out",
    "mm.dtype",
    "addmm",
    "addmm.out",
    "addmm_",
    "bmm",
    "bmm.out",
    "baddbmm",
    "baddbmm.out",
    "baddbmm_",
    "mv",
    "addmv",
    "addmv.out",
    "addmv_",
    "dot",
    "vdot",
    "addbmm",
    "addbmm_",
    "_grouped_mm",
    // reductions
    "sum",
    "sum.dim_IntList",
    "sum.IntList_out",
    "mean",
    "mean.dim",
    "mean.out",
    "prod",
    "prod.dim_int",
    "cumsum",
    "cumsum.out",
    "logsumexp",
    "logsumexp.out",
    "linalg_vector_norm",
    "linalg_vector_norm.out",
    "norm.ScalarOpt_dim",
    "norm.Scalar",
    "var.correction",
    "var_mean.correction",
    "std.correction",
    "_softmax",
    "_softmax.out",
    "_log_softmax",
    "_log_softmax.out",
    "native_layer_norm",
    "_fused_rms_norm",
    // pointwise
    "exp",
    "exp_",
    "exp.out",
    "exp2",
    "exp2.out",
    "expm1",
    "expm1.out",
    "log",
    "log_",
    "log.out",
    "log2",
    "log2.out",
    "log1p",
    "log1p.out",
    "rsqrt",
    "rsqrt_",
    "rsqrt.out",
    "sqrt",
    "sqrt_",
    "sqrt.out",
    "sigmoid",
    "sigmoid_",
    "sigmoid.out",
    "silu",
    "silu_",
    "silu.out",
    "tanh",
    "tanh_",
    "tanh.out",
    "gelu",
    "gelu.out",
    "softplus",
    "softplus.out",
    "erf",
    "erf.out",
    "reciprocal",
    "reciprocal_",
    "reciprocal.out",
    "pow.Tensor_Scalar",
    "pow.Tensor_Scalar_out",
    "pow.Tensor_Tensor",
    "pow.Tensor_Tensor_out",
    "pow_.Scalar",
    "pow.Scalar",
    "pow.Scalar_out",
    "addcmul",
    "addcmul_",
    "addcmul.out",
    "addcdiv",
    "addcdiv_",
    "addcdiv.out",
    "lerp.Scalar",
    "lerp.Tensor",
    "atan2",
    "atan2.out",
    "cos",
    "cos.out",
    "sin",
    "sin.out",
};

const char* const kScaledSums[] = {"add.Tensor", "add_.Tensor", "add.out", "sub.Tensor", "sub_.Tensor", "sub.out"};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    for (const char* name : kInDouble) {
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_in_double>());
    }
    for (const char* name : kScaledSums) {
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_scaled_sum>());
    }
}

}  // namespace npu_twin
