// From the sums of all channels to the entry: division, RMSNorm, interleaved RoPE, one rounding to bf16.
#pragma once

#include "pool.h"

namespace dsv4::tree_compress {

// Constants of a launch in UB.
struct FinishTables {
    Lanes norm_weight;                         // [dim]
    Lanes sign;                                // [rope]: -1, 1, -1, 1 ...
    AscendC::LocalTensor<uint32_t> neighbour;  // [rope]: byte offset of the other channel of the pair
    AscendC::LocalTensor<uint32_t> across[3];  // [8]: byte offset of lane i ^ 4, i ^ 2, i ^ 1
};

template <bool EXACT>
class Finish {
 public:
    __aicore__ inline void Init(Scratch* scratch, uint32_t dim, uint32_t rope, float eps, float eps_low) {
        scratch_ = scratch;
        dim_ = dim;
        rope_ = rope;
        eps_ = eps;
        eps_low_ = eps_low;
    }
    __aicore__ inline void Use(const FinishTables& tables) { tables_ = tables; }

    // sum, weighted: [dim], used up. cos, sin: [rope]; sin is used up. out: [dim].
    __aicore__ inline void Run(const Pair& sum, const Pair& weighted, const Lanes& cos, const Lanes& sin,
                               const AscendC::LocalTensor<bfloat16_t>& out) {
        Divide(weighted, sum);
        const Pair square{At(P), At(ERROR)};
        Square(weighted, square);
        Total(square);
        InverseRoot(square);
        lanes::repeat(square.hi, kGroup, dim_);
        if constexpr (EXACT) lanes::repeat(square.lo, kGroup, dim_);
        Scale(weighted, square);
        Rotate(weighted[dim_ - rope_], cos, sin);
        Round(weighted, out);
    }

 private:
    static constexpr uint32_t kGroup = 8;  // lanes of a UB block: operands start on these
    enum Use : uint32_t { P, ERROR, T, U, A_HIGH, A_LOW, B_HIGH, B_LOW, V, W, X, Y, C, D };

    __aicore__ inline Lanes At(uint32_t index) { return (*scratch_)[index]; }
    __aicore__ inline lanes::Split SplitA() { return {At(A_HIGH), At(A_LOW)}; }
    __aicore__ inline lanes::Split SplitB() { return {At(B_HIGH), At(B_LOW)}; }

    // product + error = a * b for whole floats.
    __aicore__ inline void Multiply(const Lanes& product, const Lanes& error, const Lanes& a, const Lanes& b,
                                    uint32_t n) {
        lanes::split(SplitA(), a, n);
        lanes::split(SplitB(), b, n);
        lanes::two_product(product, error, a, SplitA(), b, SplitB(), At(T), n);
    }

    // a /= b
    __aicore__ inline void Divide(const Pair& a, const Pair& b) {
        if constexpr (!EXACT) {
            lanes::div(a.hi, a.hi, b.hi, dim_);
        } else {
            lanes::normalise(a, At(P), At(T), At(U), dim_);
            lanes::normalise(b, At(P), At(T), At(U), dim_);
            const Lanes quotient = At(V);
            lanes::div(quotient, a.hi, b.hi, dim_);
            Multiply(At(P), At(ERROR), quotient, b.hi, dim_);
            lanes::sub(a.hi, a.hi, At(P), dim_);
            lanes::sub(a.hi, a.hi, At(ERROR), dim_);
            lanes::add(a.hi, a.hi, a.lo, dim_);
            lanes::mul(b.lo, b.lo, quotient, dim_);
            lanes::sub(a.hi, a.hi, b.lo, dim_);
            lanes::div(a.lo, a.hi, b.hi, dim_);
            lanes::copy(a.hi, quotient, dim_);
        }
    }

    __aicore__ inline void Square(const Pair& a, const Pair& square) {
        if constexpr (!EXACT) {
            lanes::mul(square.hi, a.hi, a.hi, dim_);
        } else {
            Multiply(square.hi, square.lo, a.hi, a.hi, dim_);
            lanes::mul(At(T), a.hi, a.lo, dim_);
            lanes::muls(At(T), At(T), 2.0f, dim_);
            lanes::add(square.lo, square.lo, At(T), dim_);
        }
    }

    // Sum over the channels, in each of the first kGroup lanes.
    __aicore__ inline void Total(const Pair& a) {
        for (uint32_t half = dim_ / 2; half >= kGroup; half /= 2) Accumulate(a, a[half], half);
        const Pair other{At(V), At(W)};
        for (uint32_t i = 0; i < 3; ++i) {
            AscendC::Gather(other.hi, a.hi, tables_.across[i], 0, kGroup);
            if constexpr (EXACT) AscendC::Gather(other.lo, a.lo, tables_.across[i], 0, kGroup);
            lanes::settle();
            Accumulate(a, other, kGroup);
        }
    }

    __aicore__ inline void Accumulate(const Pair& to, const Pair& from, uint32_t n) {
        if constexpr (EXACT) {
            lanes::accumulate(to, from, At(T), At(U), n);
        } else {
            lanes::add(to.hi, to.hi, from.hi, n);
        }
    }

    // a = 1 / sqrt(a / dim + eps) in kGroup lanes.
    __aicore__ inline void InverseRoot(const Pair& a) {
        const float share = 1.0f / static_cast<float>(dim_);
        const Lanes x = At(X), root = At(Y), one = At(V);
        lanes::muls(a.hi, a.hi, share, kGroup);
        lanes::fill(one, 1.0f, kGroup);
        if constexpr (!EXACT) {
            lanes::adds(x, a.hi, eps_, kGroup);
            AscendC::Sqrt(root, x, static_cast<int32_t>(kGroup));
            lanes::settle();
            lanes::div(a.hi, one, root, kGroup);
        } else {
            lanes::muls(a.lo, a.lo, share, kGroup);
            lanes::adds(a.lo, a.lo, eps_low_, kGroup);
            lanes::fill(At(T), eps_, kGroup);
            lanes::two_sum(x, At(W), a.hi, At(T), At(U), kGroup);
            lanes::add(At(W), At(W), a.lo, kGroup);
            AscendC::Sqrt(root, x, static_cast<int32_t>(kGroup));
            lanes::settle();
            lanes::div(a.hi, one, root, kGroup);
            // One Newton step: y += y (1 - x y^2) / 2.
            Multiply(At(C), At(D), a.hi, a.hi, kGroup);
            Multiply(At(V), At(Y), x, At(C), kGroup);
            lanes::muls(At(U), At(V), -1.0f, kGroup);
            lanes::adds(At(U), At(U), 1.0f, kGroup);
            lanes::sub(At(U), At(U), At(Y), kGroup);
            lanes::mul(At(T), x, At(D), kGroup);
            lanes::sub(At(U), At(U), At(T), kGroup);
            lanes::mul(At(T), At(W), At(C), kGroup);
            lanes::sub(At(U), At(U), At(T), kGroup);
            lanes::mul(At(U), At(U), a.hi, kGroup);
            lanes::muls(a.lo, At(U), 0.5f, kGroup);
        }
    }

    // a = a * scale * norm weight
    __aicore__ inline void Scale(const Pair& a, const Pair& scale) {
        if constexpr (!EXACT) {
            lanes::mul(a.hi, a.hi, scale.hi, dim_);
            lanes::mul(a.hi, a.hi, tables_.norm_weight, dim_);
        } else {
            Multiply(At(V), At(W), a.hi, scale.hi, dim_);
            lanes::multiply_add(At(W), a.hi, scale.lo, At(T), dim_);
            lanes::multiply_add(At(W), a.lo, scale.hi, At(T), dim_);
            Multiply(a.hi, a.lo, At(V), tables_.norm_weight, dim_);
            lanes::multiply_add(a.lo, At(W), tables_.norm_weight, At(T), dim_);
        }
    }

    // a: the last channels, pairs (even, odd) -> (even cos - odd sin, odd cos + even sin).
    __aicore__ inline void Rotate(const Pair& a, const Lanes& cos, const Lanes& sin) {
        lanes::mul(sin, sin, tables_.sign, rope_);
        AscendC::Gather(At(V), a.hi, tables_.neighbour, 0, rope_);
        if constexpr (EXACT) AscendC::Gather(At(W), a.lo, tables_.neighbour, 0, rope_);
        lanes::settle();
        if constexpr (!EXACT) {
            lanes::mul(a.hi, a.hi, cos, rope_);
            lanes::multiply_add(a.hi, At(V), sin, At(T), rope_);
        } else {
            Multiply(At(X), At(Y), a.hi, cos, rope_);
            lanes::multiply_add(At(Y), a.lo, cos, At(T), rope_);
            Multiply(At(C), At(D), At(V), sin, rope_);
            lanes::multiply_add(At(D), At(W), sin, At(T), rope_);
            Accumulate({At(X), At(Y)}, {At(C), At(D)}, rope_);
            lanes::copy(a.hi, At(X), rope_);
            lanes::copy(a.lo, At(Y), rope_);
        }
    }

    // To nearest, ties to even, of hi + lo: rounding hi alone would decide a tie of hi without asking lo.
    __aicore__ inline void Round(const Pair& a, const AscendC::LocalTensor<bfloat16_t>& out) {
        using AscendC::RoundMode;
        if constexpr (!EXACT) {
            AscendC::Cast(out, a.hi, RoundMode::CAST_RINT, dim_);
            lanes::settle();
        } else {
            const auto count = static_cast<int32_t>(dim_);
            const auto narrow = At(A_HIGH).template ReinterpretCast<bfloat16_t>();
            const auto mask = At(A_LOW).template ReinterpretCast<uint8_t>();
            const Lanes below = At(V), middle = At(W), above = At(X), nearest = At(Y), side = At(B_HIGH);
            lanes::normalise(a, At(P), At(T), At(U), dim_);
            AscendC::Cast(narrow, a.hi, RoundMode::CAST_TRUNC, dim_);
            lanes::settle();
            AscendC::Cast(below, narrow, RoundMode::CAST_NONE, dim_);
            lanes::settle();
            const lanes::Ints bits = below.template ReinterpretCast<int32_t>();
            AscendC::Adds(middle.template ReinterpretCast<int32_t>(), bits, 0x8000, count);
            AscendC::Adds(above.template ReinterpretCast<int32_t>(), bits, 0x10000, count);
            AscendC::Cast(narrow, a.hi, RoundMode::CAST_RINT, dim_);
            lanes::settle();
            AscendC::Cast(nearest, narrow, RoundMode::CAST_NONE, dim_);
            // Sign of (value - middle) / value: positive beyond the middle, seen from zero.
            lanes::sub(side, a.hi, middle, dim_);
            lanes::add(side, side, a.lo, dim_);
            lanes::mul(side, side, a.hi, dim_);
            Choose(nearest, mask, side, AscendC::CMPMODE::GT, above);
            Choose(nearest, mask, side, AscendC::CMPMODE::LT, below);
            AscendC::Cast(out, nearest, RoundMode::CAST_RINT, dim_);
            lanes::settle();
        }
    }

    // to = value where side compares to 0
    __aicore__ inline void Choose(const Lanes& to, const AscendC::LocalTensor<uint8_t>& mask, const Lanes& side,
                                  AscendC::CMPMODE mode, const Lanes& value) {
        AscendC::CompareScalar(mask, side, 0.0f, mode, dim_);
        lanes::settle();
        AscendC::Select(to, mask, value, to, AscendC::SELMODE::VSEL_TENSOR_TENSOR_MODE, dim_);
        lanes::settle();
    }

    Scratch* scratch_ = nullptr;
    FinishTables tables_;
    uint32_t dim_ = 0;
    uint32_t rope_ = 0;
    float eps_ = 0.0f;
    float eps_low_ = 0.0f;
};

}  // namespace dsv4::tree_compress
