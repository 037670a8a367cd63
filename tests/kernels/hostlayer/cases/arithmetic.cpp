// Vector instructions on given numbers, for comparison with other implementations.
#include <cstring>

#include "case.h"
#include "launch.h"

namespace cases {
namespace {

constexpr uint32_t kCount = 256;

struct Operands {
    LocalTensor<float> a;
    LocalTensor<float> b;
    LocalTensor<float> out;
    LocalTensor<float> spare;
};

struct Operation {
    const char* name;
    void (*run)(const Operands&);
};

void compare_select(const Operands& o) {
    LocalTensor<uint8_t> bits = o.spare.ReinterpretCast<uint8_t>();
    Compare(bits, o.a, o.b, CMPMODE::LT, kCount);
    PipeBarrier<PIPE_V>();
    Select(o.out, bits, o.a, o.b, SELMODE::VSEL_TENSOR_TENSOR_MODE, kCount);
}

void scalar_select(const Operands& o) {
    LocalTensor<uint8_t> bits = o.spare.ReinterpretCast<uint8_t>();
    CompareScalar(bits, o.a, 0.0f, CMPMODE::GE, kCount);
    PipeBarrier<PIPE_V>();
    Select(o.out, bits, o.a, 0.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, kCount);
}

void gather_reversed(const Operands& o) {
    LocalTensor<int32_t> offsets = o.spare.ReinterpretCast<int32_t>();
    CreateVecIndex(offsets, 0, kCount);
    PipeBarrier<PIPE_V>();
    Muls(offsets, offsets, -4, kCount);
    PipeBarrier<PIPE_V>();
    Adds(offsets, offsets, static_cast<int32_t>(4 * (kCount - 1)), kCount);
    PipeBarrier<PIPE_V>();
    Gather(o.out, o.a, o.spare.ReinterpretCast<uint32_t>(), 0, kCount);
}

template <RoundMode MODE>
void to_int32(const Operands& o) {
    Cast(o.out.ReinterpretCast<int32_t>(), o.a, MODE, kCount);
}

template <typename T>
void narrow_and_widen(const Operands& o) {
    Cast(o.spare.ReinterpretCast<T>(), o.a, RoundMode::CAST_RINT, kCount);
    PipeBarrier<PIPE_V>();
    Cast(o.out, o.spare.ReinterpretCast<T>(), RoundMode::CAST_NONE, kCount);
}

void reduce_sum(const Operands& o) {
    Duplicate(o.out, 0.0f, kCount);
    PipeBarrier<PIPE_V>();
    ReduceSum(o.out, o.a, o.spare, kCount - 3);
}

void reduce_max(const Operands& o) {
    Duplicate(o.out, 0.0f, kCount);
    PipeBarrier<PIPE_V>();
    ReduceMax(o.out, o.a, o.spare, kCount, true);
}

void whole_reduce_sum(const Operands& o) {
    Duplicate(o.out, 0.0f, kCount);
    PipeBarrier<PIPE_V>();
    WholeReduceSum(o.out, o.a, 60, 4, 1, 1, 8);
}

const Operation kOperations[] = {
    {"add", [](const Operands& o) { Add(o.out, o.a, o.b, kCount); }},
    {"sub", [](const Operands& o) { Sub(o.out, o.a, o.b, kCount); }},
    {"mul", [](const Operands& o) { Mul(o.out, o.a, o.b, kCount); }},
    {"div", [](const Operands& o) { Div(o.out, o.a, o.b, kCount); }},
    {"max", [](const Operands& o) { Max(o.out, o.a, o.b, kCount); }},
    {"min", [](const Operands& o) { Min(o.out, o.a, o.b, kCount); }},
    {"muls", [](const Operands& o) { Muls(o.out, o.a, 3.0f, kCount); }},
    {"maxs", [](const Operands& o) { Maxs(o.out, o.a, 0.5f, kCount); }},
    {"mins", [](const Operands& o) { Mins(o.out, o.a, 0.5f, kCount); }},
    {"exp", [](const Operands& o) { Exp(o.out, o.a, kCount); }},
    {"sqrt", [](const Operands& o) { Sqrt(o.out, o.b, kCount); }},
    {"bf16", narrow_and_widen<bfloat16_t>},
    {"half", narrow_and_widen<half>},
    {"rint", to_int32<RoundMode::CAST_RINT>},
    {"floor", to_int32<RoundMode::CAST_FLOOR>},
    {"ceil", to_int32<RoundMode::CAST_CEIL>},
    {"trunc", to_int32<RoundMode::CAST_TRUNC>},
    {"compare_select", compare_select},
    {"scalar_select", scalar_select},
    {"gather_reversed", gather_reversed},
    {"reduce_sum", reduce_sum},
    {"reduce_max", reduce_max},
    {"whole_reduce_sum", whole_reduce_sum},
};

}  // namespace

// out[256] = operation(a[256], b[256]), in 32-bit words.
extern "C" DSV4_EXPORT int hostlayer_vector(const char* name, const float* a, const float* b, float* out, char* error,
                                            size_t size) {
    for (const Operation& operation : kOperations) {
        if (std::strcmp(operation.name, name) != 0) continue;
        dsv4::Launch launch(name, 1, nullptr);
        launch.input(a, kCount * 4, "a");
        launch.input(b, kCount * 4, "b");
        launch.output(out, kCount * 4, "out");
        return launch.run(
            [&] {
                TPipe pipe;
                TBuf<TPosition::VECCALC> buffer;
                pipe.InitBuffer(buffer, 4 * kCount * 4);
                LocalTensor<float> all = buffer.Get<float>();
                const Operands o{all, all[kCount], all[2 * kCount], all[3 * kCount]};
                GlobalTensor<float> in_a, in_b, result;
                in_a.SetGlobalBuffer(const_cast<float*>(a));
                in_b.SetGlobalBuffer(const_cast<float*>(b));
                result.SetGlobalBuffer(out);
                DataCopy(o.a, in_a, kCount);
                DataCopy(o.b, in_b, kCount);
                order<HardEvent::MTE2_V>();
                operation.run(o);
                order<HardEvent::V_MTE3>();
                DataCopy(result, o.out, kCount);
            },
            error, size);
    }
    return dsv4::fail(DSV4_BAD_ARGUMENT, error, size, "no operation %s", name);
}

// Copies a[blocks of `bytes`, `src_gap` bytes apart] through UB to out[`dst_gap` bytes apart] with DataCopyPad.
extern "C" DSV4_EXPORT int hostlayer_strided(const uint8_t* a, uint64_t a_bytes, uint8_t* out, uint64_t out_bytes,
                                             uint32_t blocks, uint32_t bytes, uint32_t src_gap, uint32_t dst_gap,
                                             char* error, size_t size) {
    dsv4::Launch launch("strided", 1, nullptr);
    launch.input(a, a_bytes, "a");
    launch.output(out, out_bytes, "out");
    return launch.run(
        [&] {
            TPipe pipe;
            TBuf<TPosition::VECCALC> buffer;
            pipe.InitBuffer(buffer, 65536);
            GlobalTensor<uint8_t> in, result;
            in.SetGlobalBuffer(const_cast<uint8_t*>(a));
            result.SetGlobalBuffer(out);
            const auto count = static_cast<uint16_t>(blocks);
            // One UB block between the rows, to see that both directions count it the same way.
            DataCopyPad(buffer.Get<uint8_t>(), in, {count, bytes, src_gap, 1, 0}, {false, 0, 0, 0});
            order<HardEvent::MTE2_MTE3>();
            DataCopyPad(result, buffer.Get<uint8_t>(), {count, bytes, 1, dst_gap, 0});
        },
        error, size);
}

}  // namespace cases
