// Bounds, alignment, limits and contents.
#include "case.h"

namespace cases {
namespace {

// M2: GM read past the end of a tensor.
template <bool FAULT>
void m2_gm_out_of_bounds(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    DataCopy(buffer.Get<int32_t>(), t.x[FAULT ? kWords - 56 : kWords - 64], 64);
}
CASE(m2_gm_out_of_bounds, 1);

// M3: DataCopy to UB + 4.
template <bool FAULT>
void m3_unaligned_ub(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 512);
    DataCopy(buffer.Get<int32_t>()[FAULT ? 1 : 8], t.x, 64);
}
CASE(m3_unaligned_ub, 1);

// M7: InitBuffer beyond the budget of the default build options, although inside the physical 192 KB.
template <bool FAULT>
void m7_ub_overflow(Tensors&) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer, more;
    pipe.InitBuffer(buffer, 188160 - 32);
    pipe.InitBuffer(more, FAULT ? 33 : 32);
}
CASE(m7_ub_overflow, 1);

// M9: DataCopy of 20 bytes.
template <bool FAULT>
void m9_count_not_32(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    DataCopy(buffer.Get<int32_t>(), t.x, FAULT ? 5 : 8);
}
CASE(m9_count_not_32, 1);

// M19: vector instruction on UB that was never written.
template <bool FAULT>
void m19_uninitialised(Tensors&) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 512);
    LocalTensor<int32_t> a = buffer.Get<int32_t>();
    Duplicate(a, 1, FAULT ? 63 : 64);
    PipeBarrier<PIPE_V>();
    Adds(a[64], a, 1, 64);
}
CASE(m19_uninitialised, 1);

// The bytes between a block and the next 32 B are not defined.
template <bool FAULT>
void pad_tail_read(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 512);
    LocalTensor<int32_t> a = buffer.Get<int32_t>();
    DataCopyPad(a, t.x, {1, 20, 0, 0, 0}, {!FAULT, 0, 3, 0});
    order<HardEvent::MTE2_V>();
    Adds(a[64], a, 1, 8);
}
CASE(pad_tail_read, 1);

// A vector instruction past the end of its tensor.
template <bool FAULT>
void ub_out_of_bounds(Tensors&) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer, neighbour;
    pipe.InitBuffer(buffer, 256);
    pipe.InitBuffer(neighbour, 256);
    Duplicate(buffer.Get<int32_t>(), 1, FAULT ? 65 : 64);
}
CASE(ub_out_of_bounds, 1);

// A tensor that the launch declares as input.
template <bool FAULT>
void input_written(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    LocalTensor<int32_t> a = buffer.Get<int32_t>();
    Duplicate(a, 1, 64);
    order<HardEvent::V_MTE3>();
    DataCopy(FAULT ? t.x : t.y, a, 64);
}
CASE(input_written, 1);

// Past the size that SetGlobalBuffer was given, though inside the tensor.
template <bool FAULT>
void past_declared_size(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 256);
    GlobalTensor<int32_t> part;
    part.SetGlobalBuffer(t.x.GetPhyAddr(), FAULT ? 63 : 64);
    DataCopy(buffer.Get<int32_t>(), part, 64);
}
CASE(past_declared_size, 1);

template <bool FAULT>
void too_many_blocks(Tensors& t) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 140000);
    DataCopyPad(buffer.Get<int32_t>(), t.x, {static_cast<uint16_t>(FAULT ? 4096 : 63), 4, 0, 0, 0}, {false, 0, 0, 0});
}
CASE(too_many_blocks, 1);

// Compare works on whole repeats of 256 B.
template <bool FAULT>
void compare_count(Tensors&) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> values, bits;
    pipe.InitBuffer(values, 512);
    pipe.InitBuffer(bits, 32);
    LocalTensor<int32_t> a = values.Get<int32_t>();
    Duplicate(a, 1, 128);
    PipeBarrier<PIPE_V>();
    Compare(bits.Get<uint8_t>(), a, a[64], CMPMODE::EQ, FAULT ? 56 : 64);
}
CASE(compare_count, 1);

// int32 compares with EQ only.
template <bool FAULT>
void compare_mode(Tensors&) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> values, bits;
    pipe.InitBuffer(values, 512);
    pipe.InitBuffer(bits, 32);
    LocalTensor<int32_t> a = values.Get<int32_t>();
    Duplicate(a, 1, 128);
    PipeBarrier<PIPE_V>();
    Compare(bits.Get<uint8_t>(), a, a[64], FAULT ? CMPMODE::LT : CMPMODE::EQ, 64);
}
CASE(compare_mode, 1);

template <bool FAULT>
void cast_round_mode(Tensors&) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> wide, narrow;
    pipe.InitBuffer(wide, 256);
    pipe.InitBuffer(narrow, 256);
    Duplicate(wide.Get<float>(), 1.5f, 64);
    PipeBarrier<PIPE_V>();
    Cast(narrow.Get<bfloat16_t>(), wide.Get<float>(), FAULT ? RoundMode::CAST_NONE : RoundMode::CAST_RINT, 64);
}
CASE(cast_round_mode, 1);

template <bool FAULT>
void gather_offset(Tensors&) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> source, offsets, target;
    pipe.InitBuffer(source, 256);
    pipe.InitBuffer(offsets, 256);
    pipe.InitBuffer(target, 256);
    Duplicate(source.Get<int32_t>(), 1, 64);
    Duplicate(offsets.Get<uint32_t>(), FAULT ? 256u : 252u, 64);
    PipeBarrier<PIPE_V>();
    Gather(target.Get<int32_t>(), source.Get<int32_t>(), offsets.Get<uint32_t>(), 0, 64);
}
CASE(gather_offset, 1);

// Source and destination of an instruction that overlap by half.
template <bool FAULT>
void partial_overlap(Tensors&) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 512);
    LocalTensor<int32_t> a = buffer.Get<int32_t>();
    Duplicate(a, 1, 128);
    PipeBarrier<PIPE_V>();
    Adds(FAULT ? a[32] : a, a, 1, 64);
}
CASE(partial_overlap, 1);

}  // namespace
}  // namespace cases
