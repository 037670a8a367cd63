// Vector arithmetic on fp32 lanes, and on lanes that are an unevaluated sum of two floats (hi + lo, about 48 bits).
// Every instruction is followed by a barrier of the vector pipe, so a result may be the next instruction's operand.
#pragma once

#include "kernel_operator.h"

namespace dsv4::lanes {

using Lanes = AscendC::LocalTensor<float>;
using Ints = AscendC::LocalTensor<int32_t>;

__aicore__ inline void settle() { AscendC::PipeBarrier<PIPE_V>(); }

__aicore__ inline void add(const Lanes& to, const Lanes& a, const Lanes& b, uint32_t n) {
    AscendC::Add(to, a, b, static_cast<int32_t>(n));
    settle();
}
__aicore__ inline void sub(const Lanes& to, const Lanes& a, const Lanes& b, uint32_t n) {
    AscendC::Sub(to, a, b, static_cast<int32_t>(n));
    settle();
}
__aicore__ inline void mul(const Lanes& to, const Lanes& a, const Lanes& b, uint32_t n) {
    AscendC::Mul(to, a, b, static_cast<int32_t>(n));
    settle();
}
__aicore__ inline void div(const Lanes& to, const Lanes& a, const Lanes& b, uint32_t n) {
    AscendC::Div(to, a, b, static_cast<int32_t>(n));
    settle();
}
__aicore__ inline void larger(const Lanes& to, const Lanes& a, const Lanes& b, uint32_t n) {
    AscendC::Max(to, a, b, static_cast<int32_t>(n));
    settle();
}
__aicore__ inline void adds(const Lanes& to, const Lanes& a, float b, uint32_t n) {
    AscendC::Adds(to, a, b, static_cast<int32_t>(n));
    settle();
}
__aicore__ inline void muls(const Lanes& to, const Lanes& a, float b, uint32_t n) {
    AscendC::Muls(to, a, b, static_cast<int32_t>(n));
    settle();
}
__aicore__ inline void at_least(const Lanes& to, const Lanes& a, float b, uint32_t n) {
    AscendC::Maxs(to, a, b, static_cast<int32_t>(n));
    settle();
}
__aicore__ inline void at_most(const Lanes& to, const Lanes& a, float b, uint32_t n) {
    AscendC::Mins(to, a, b, static_cast<int32_t>(n));
    settle();
}
__aicore__ inline void exponential(const Lanes& to, const Lanes& a, uint32_t n) {
    AscendC::Exp(to, a, static_cast<int32_t>(n));
    settle();
}
__aicore__ inline void fill(const Lanes& to, float value, uint32_t n) {
    AscendC::Duplicate(to, value, static_cast<int32_t>(n));
    settle();
}
__aicore__ inline void copy(const Lanes& to, const Lanes& a, uint32_t n) { adds(to, a, 0.0f, n); }

// Repeats the first `have` lanes until there are `n`.
__aicore__ inline void repeat(const Lanes& lanes, uint32_t have, uint32_t n) {
    for (; have < n; have *= 2) copy(lanes[have], lanes, have);
}

// sum + error = a + b, exactly. t: scratch. All five are different lanes.
__aicore__ inline void two_sum(const Lanes& sum, const Lanes& error, const Lanes& a, const Lanes& b, const Lanes& t,
                               uint32_t n) {
    add(sum, a, b, n);
    sub(t, sum, a, n);
    sub(error, sum, t, n);
    sub(error, a, error, n);
    sub(t, b, t, n);
    add(error, error, t, n);
}

// A factor of an exact product, as two parts of 12 bits (Dekker). |a| < 2^115.
struct Split {
    Lanes high;
    Lanes low;
};

__aicore__ inline void split(const Split& to, const Lanes& a, uint32_t n) {
    muls(to.high, a, 4097.0f, n);
    sub(to.low, to.high, a, n);
    sub(to.high, to.high, to.low, n);
    sub(to.low, a, to.high, n);
}

// product + error = a * b, exactly. t: scratch.
__aicore__ inline void two_product(const Lanes& product, const Lanes& error, const Lanes& a, const Split& as,
                                   const Lanes& b, const Split& bs, const Lanes& t, uint32_t n) {
    mul(product, a, b, n);
    mul(error, as.high, bs.high, n);
    sub(error, error, product, n);
    mul(t, as.high, bs.low, n);
    add(error, error, t, n);
    mul(t, as.low, bs.high, n);
    add(error, error, t, n);
    mul(t, as.low, bs.low, n);
    add(error, error, t, n);
}

// to += a * b, rounded.
__aicore__ inline void multiply_add(const Lanes& to, const Lanes& a, const Lanes& b, const Lanes& t, uint32_t n) {
    mul(t, a, b, n);
    add(to, to, t, n);
}

struct Pair {
    Lanes hi;
    Lanes lo;

    __aicore__ inline Pair operator[](uint32_t first) const { return {hi[first], lo[first]}; }
};

// to += from. t, u: scratch. hi stays exact against lo; lo may grow past half a unit of hi: normalise at the end.
__aicore__ inline void accumulate(const Pair& to, const Pair& from, const Lanes& t, const Lanes& u, uint32_t n) {
    add(to.lo, to.lo, from.lo, n);
    add(t, to.hi, from.hi, n);
    sub(u, t, to.hi, n);
    sub(from.lo, t, u, n);
    sub(from.lo, to.hi, from.lo, n);
    sub(u, from.hi, u, n);
    add(from.lo, from.lo, u, n);
    add(to.lo, to.lo, from.lo, n);
    copy(to.hi, t, n);
}

__aicore__ inline void normalise(const Pair& pair, const Lanes& sum, const Lanes& t, const Lanes& u, uint32_t n) {
    two_sum(sum, t, pair.hi, pair.lo, u, n);
    copy(pair.hi, sum, n);
    copy(pair.lo, t, n);
}

}  // namespace dsv4::lanes
