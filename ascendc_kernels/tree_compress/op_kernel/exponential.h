// exp of non-positive pairs to about 2^-37 (mean 2^-41), from fp32 vector instructions.
#pragma once

#include "lanes.h"

namespace dsv4::lanes {

// ln 2 in parts of 16 bits, so that k * part is exact for |k| < 256.
constexpr float kLn2First = 0x1.62e4p-1f;
constexpr float kLn2Second = 0x1.7f7ep-20f;
constexpr float kLn2Third = -0x1.c610cap-37f;
constexpr float kLog2E = 0x1.715476p+0f;
constexpr float kSmallest = -88.0f;  // exp of this and less is taken as 0

struct ExpScratch {
    Lanes r, k, e, t, p, error;
    Split r_split, p_split;
};

// hi + lo (|lo| <= 2^-17, hi >= kSmallest) minus the multiple k of ln 2 that leaves |r| <= ln2 / 2. hi becomes the
// power of two 2^k, or 0 where exp vanishes; the remainder is s.r + lo.
__aicore__ inline void reduce(const Pair& x, const ExpScratch& s, uint32_t n) {
    const Ints whole = s.e.ReinterpretCast<int32_t>();
    const auto count = static_cast<int32_t>(n);
    muls(s.k, x.hi, kLog2E, n);
    AscendC::Cast(whole, s.k, AscendC::RoundMode::CAST_RINT, n);
    settle();
    AscendC::Cast(s.k, whole, AscendC::RoundMode::CAST_NONE, n);
    // 2^k by its bits; k = -127 gives 0. `p` keeps it until hi is free.
    const Ints power = s.p.ReinterpretCast<int32_t>();
    AscendC::Adds(power, whole, 127, count);
    settle();
    AscendC::Muls(power, power, 1 << 23, count);
    muls(s.t, s.k, -kLn2First, n);
    two_sum(s.r, s.error, x.hi, s.t, s.e, n);
    add(x.lo, x.lo, s.error, n);
    muls(s.t, s.k, -kLn2Second, n);
    two_sum(x.hi, s.error, s.r, s.t, s.e, n);
    add(x.lo, x.lo, s.error, n);
    muls(s.t, s.k, -kLn2Third, n);
    add(x.lo, x.lo, s.t, n);
    add(s.r, x.hi, x.lo, n);
    sub(s.t, s.r, x.hi, n);
    sub(x.lo, x.lo, s.t, n);
    copy(x.hi, s.p, n);
}

// to = constant + (r + r_lo) * to
__aicore__ inline void horner(const Pair& to, float constant, float constant_low, const ExpScratch& s,
                              const Lanes& r_lo, uint32_t n) {
    split(s.p_split, to.hi, n);
    two_product(s.p, s.error, s.r, s.r_split, to.hi, s.p_split, s.t, n);
    multiply_add(s.error, s.r, to.lo, s.t, n);
    multiply_add(s.error, r_lo, to.hi, s.t, n);
    if (constant_low != 0.0f) adds(s.error, s.error, constant_low, n);
    adds(to.hi, s.p, constant, n);
    adds(s.t, to.hi, -constant, n);
    sub(to.lo, s.p, s.t, n);
    add(to.lo, to.lo, s.error, n);
}

// to = exp(x). x is used up.
__aicore__ inline void exponential(const Pair& to, const Pair& x, const ExpScratch& s, uint32_t n) {
    reduce(x, s, n);
    split(s.r_split, s.r, n);
    // Taylor terms from the tenth to the fifth need fp32 only, the fourth one more sum, the rest pairs.
    constexpr float kTerms[4] = {1.0f / 362880.0f, 1.0f / 40320.0f, 1.0f / 5040.0f, 1.0f / 720.0f};
    muls(s.p, s.r, 1.0f / 3628800.0f, n);
    for (float term : kTerms) {
        adds(s.p, s.p, term, n);
        mul(s.p, s.p, s.r, n);
    }
    adds(s.p, s.p, 1.0f / 120.0f, n);
    mul(s.p, s.p, s.r, n);
    constexpr float kFourth = 1.0f / 24.0f, kThird = 1.0f / 6.0f;
    adds(to.hi, s.p, kFourth, n);
    adds(s.t, to.hi, -kFourth, n);
    sub(to.lo, s.p, s.t, n);
    adds(to.lo, to.lo, static_cast<float>(1.0 / 24.0 - kFourth), n);
    horner(to, kThird, static_cast<float>(1.0 / 6.0 - kThird), s, x.lo, n);
    horner(to, 0.5f, 0.0f, s, x.lo, n);
    horner(to, 1.0f, 0.0f, s, x.lo, n);
    horner(to, 1.0f, 0.0f, s, x.lo, n);
    mul(to.hi, to.hi, x.hi, n);
    mul(to.lo, to.lo, x.hi, n);
}

}  // namespace dsv4::lanes
