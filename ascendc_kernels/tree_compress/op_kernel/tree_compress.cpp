// tree_compress: the window of every closing node becomes one bf16 entry. See ../README.md.
#include "finish.h"
#include "runs.h"

using namespace AscendC;

// Names declared here hide those of AscendC.
namespace dsv4::tree_compress {

namespace {

struct Shape {
    int64_t rows;  // of the tree; also of scratch, window, closes, cos, sin, out
    int64_t state_rows;
    uint32_t dim;    // channels D of an entry
    uint32_t coff;   // 2: the first half of the slots uses columns [0, D), the second [D, 2D)
    uint32_t slots;  // coff * ratio
    uint32_t rope;   // last channels that are turned
};

template <bool EXACT>
class TreeCompress {
 public:
    __aicore__ inline void Init(TPipe* pipe, GM_ADDR scratch, GM_ADDR state, GM_ADDR window, GM_ADDR closes,
                                GM_ADDR norm_weight, GM_ADDR cos, GM_ADDR sin, GM_ADDR out, const Shape& shape,
                                float eps, float eps_low) {
        shape_ = shape;
        chunk_ = chunk_of(shape.dim, shape.slots);
        half_ = shape.slots * chunk_;
        const uint64_t width = 2ull * shape.coff * shape.dim;
        rows_[STATE].SetGlobalBuffer(reinterpret_cast<__gm__ float*>(state), shape.state_rows * width);
        rows_[TREE].SetGlobalBuffer(reinterpret_cast<__gm__ float*>(scratch), shape.rows * width);
        closes_.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(closes), shape.rows);
        cos_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(cos), shape.rows * shape.rope);
        sin_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(sin), shape.rows * shape.rope);
        out_.SetGlobalBuffer(reinterpret_cast<__gm__ bfloat16_t*>(out), shape.rows * shape.dim);
        pipe->InitBuffer(loads_, kLoads, (2 * half_ + 2 * kMaxRope) * sizeof(float));
        pipe->InitBuffer(entries_, 2, kMaxDim * sizeof(bfloat16_t));
        pipe->InitBuffer(flags_, kFlagWindow);
        pipe->InitBuffer(zeros_, kZeros * sizeof(bfloat16_t));
        pipe->InitBuffer(sums_, 4 * kMaxDim * sizeof(float));
        pipe->InitBuffer(constants_, (kMaxDim + 2 * kMaxRope + 3 * 8) * sizeof(float));
        runs_.Init(pipe, window, shape.rows, shape.state_rows, shape.slots, shape.slots / shape.coff);
        lanes_.Init(pipe);
        pool_.Init(&lanes_, shape.slots, chunk_);
        norm_weight_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(norm_weight), shape.dim);
        finish_.Init(&lanes_, shape.dim, shape.rope, eps, eps_low);
    }

    __aicore__ inline void Process() {
        ClearOpenRows();
        int64_t closing = 0;
        for (int64_t first = 0; first < shape_.rows; first += kFlagWindow) {
            const int64_t count = LoadFlags(first, shape_.rows);
            for (int64_t i = 0; i < count; i = NextFlag(i, count)) {
                if (Flag(i) && closing++ % GetBlockNum() == GetBlockIdx()) Begin(first + i);
            }
        }
        if (pending_) Compute();
    }

 private:
    // Once per core that has a row to close.
    __aicore__ inline void LoadConstants() {
        const uint32_t size = sizeof(float);
        FinishTables tables;
        tables.norm_weight = constants_.GetWithOffset<float>(kMaxDim, 0);
        tables.sign = constants_.GetWithOffset<float>(kMaxRope, kMaxDim * size);
        tables.neighbour = constants_.GetWithOffset<uint32_t>(kMaxRope, (kMaxDim + kMaxRope) * size);
        DataCopy(tables.norm_weight, norm_weight_, shape_.dim);
        for (uint32_t i = 0; i < shape_.rope; ++i) {
            tables.sign.SetValue(i, i % 2 == 0 ? -1.0f : 1.0f);
            tables.neighbour.SetValue(i, (i ^ 1u) * size);
        }
        for (uint32_t t = 0; t < 3; ++t) {
            tables.across[t] = constants_.GetWithOffset<uint32_t>(8, (kMaxDim + 2 * kMaxRope + 8 * t) * size);
            for (uint32_t i = 0; i < 8; ++i) tables.across[t].SetValue(i, (i ^ (4u >> t)) * size);
        }
        SetFlag<HardEvent::S_V>(EVENT_ID0);
        WaitFlag<HardEvent::S_V>(EVENT_ID0);
        SetFlag<HardEvent::MTE2_V>(EVENT_ID0);
        WaitFlag<HardEvent::MTE2_V>(EVENT_ID0);
        finish_.Use(tables);
        constants_loaded_ = true;
    }

    // Flags [first, end) as far as they fit; bytes up to the next 8 are 0. Returns their number.
    __aicore__ inline int64_t LoadFlags(int64_t first, int64_t end) {
        const int64_t count = end - first < kFlagWindow ? end - first : kFlagWindow;
        const auto pad = static_cast<uint8_t>((32 - count % 32) % 32);
        table_is_read();
        DataCopyPad(flags_.Get<uint8_t>(), closes_[first], {1, static_cast<uint32_t>(count), 0, 0, 0},
                    {pad != 0, 0, pad, 0});
        table_arrives();
        return count;
    }
    __aicore__ inline bool Flag(int64_t i) { return flags_.Get<uint8_t>().GetValue(static_cast<uint32_t>(i)) != 0; }
    // Steps over eight cleared flags at once.
    __aicore__ inline int64_t NextFlag(int64_t i, int64_t count) {
        for (++i; i % 8 == 0 && i < count; i += 8) {
            if (flags_.Get<int64_t>().GetValue(static_cast<uint32_t>(i / 8)) != 0) break;
        }
        return i;
    }

    // Each core clears the entries of its own slice that no window closes.
    __aicore__ inline void ClearOpenRows() {
        const LocalTensor<bfloat16_t> zeros = zeros_.Get<bfloat16_t>();
        Duplicate(zeros.ReinterpretCast<int32_t>(), 0, kZeros / 2);
        SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
        WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
        const int64_t begin = shape_.rows * GetBlockIdx() / GetBlockNum();
        const int64_t end = shape_.rows * (GetBlockIdx() + 1) / GetBlockNum();
        for (int64_t first = begin; first < end; first += kFlagWindow) {
            const int64_t count = LoadFlags(first, end);
            int64_t open = 0;
            for (int64_t i = 0; i <= count; ++i) {
                if (i < count && !Flag(i)) continue;
                Clear((first + open) * shape_.dim, (i - open) * shape_.dim, zeros);
                open = i + 1;
            }
        }
    }

    __aicore__ inline void Clear(int64_t at, int64_t elements, const LocalTensor<bfloat16_t>& zeros) {
        for (; elements > 0; at += kZeros, elements -= kZeros) {
            DataCopy(out_[at], zeros, static_cast<uint32_t>(elements < kZeros ? elements : kZeros));
        }
    }

    // Loads run one ahead of the computation.
    __aicore__ inline void Begin(int64_t row) {
        if (!constants_loaded_) LoadConstants();
        runs_.Find(row);
        for (uint32_t channel = 0; channel < shape_.dim; channel += chunk_) {
            Load(row, channel);
            if (pending_) Compute();
            pending_ = true;
            pending_row_ = row;
            pending_channel_ = channel;
        }
    }

    // Channels [channel, channel + chunk) of the whole window: kv [slots, chunk], score [slots, chunk], cos, sin.
    __aicore__ inline void Load(int64_t row, uint32_t channel) {
        const LocalTensor<float> load = loads_.AllocTensor<float>();
        const uint32_t ratio = shape_.slots / shape_.coff;
        const uint32_t half_row = shape_.coff * shape_.dim;
        for (uint32_t r = 0; r < runs_.Count(); ++r) {
            const Run run = runs_.Get(r);
            const LocalTensor<float> kv = load[run.slot * chunk_], score = load[half_ + run.slot * chunk_];
            if (run.source == ABSENT) {
                lanes::settle();
                Duplicate(kv, 0.0f, static_cast<int32_t>(run.count * chunk_));
                Duplicate(score.ReinterpretCast<int32_t>(), kMinusInfinity, static_cast<int32_t>(run.count * chunk_));
                lanes::settle();
                continue;
            }
            const uint64_t at = run.row * 2ull * half_row + run.slot / ratio * shape_.dim + channel;
            const DataCopyExtParams columns{static_cast<uint16_t>(run.count),
                                            static_cast<uint32_t>(chunk_ * sizeof(float)),
                                            static_cast<uint32_t>((2 * half_row - chunk_) * sizeof(float)), 0, 0};
            DataCopyPad(kv, rows_[run.source][at], columns, {false, 0, 0, 0});
            DataCopyPad(score, rows_[run.source][at + half_row], columns, {false, 0, 0, 0});
        }
        if (channel + chunk_ == shape_.dim) {
            DataCopy(load[2 * half_], cos_[row * shape_.rope], shape_.rope);
            DataCopy(load[2 * half_ + kMaxRope], sin_[row * shape_.rope], shape_.rope);
        }
        loads_.EnQue(load);
    }

    __aicore__ inline void Compute() {
        const LocalTensor<float> load = loads_.DeQue<float>();
        const uint32_t size = sizeof(float);
        const Pair sum{sums_.GetWithOffset<float>(kMaxDim, 0), sums_.GetWithOffset<float>(kMaxDim, kMaxDim * size)};
        const Pair weighted{sums_.GetWithOffset<float>(kMaxDim, 2 * kMaxDim * size),
                            sums_.GetWithOffset<float>(kMaxDim, 3 * kMaxDim * size)};
        pool_.Run(load, load[half_], sum[pending_channel_], weighted[pending_channel_]);
        if (pending_channel_ + chunk_ == shape_.dim) {
            LocalTensor<bfloat16_t> entry = entries_.AllocTensor<bfloat16_t>();
            finish_.Run(sum, weighted, load[2 * half_], load[2 * half_ + kMaxRope], entry);
            entries_.EnQue(entry);
            entry = entries_.DeQue<bfloat16_t>();
            DataCopy(out_[pending_row_ * shape_.dim], entry, shape_.dim);
            entries_.FreeTensor(entry);
        }
        loads_.FreeTensor(load);
        pending_ = false;
    }

    static constexpr int32_t kMinusInfinity = static_cast<int32_t>(0xff800000u);

    GlobalTensor<float> rows_[2];
    GlobalTensor<uint8_t> closes_;
    GlobalTensor<float> norm_weight_;
    GlobalTensor<float> cos_;
    GlobalTensor<float> sin_;
    GlobalTensor<bfloat16_t> out_;
    TQue<TPosition::VECIN, kLoads> loads_;
    TQue<TPosition::VECOUT, 1> entries_;
    TBuf<TPosition::VECCALC> flags_;
    Runs runs_;
    TBuf<TPosition::VECCALC> zeros_;
    TBuf<TPosition::VECCALC> sums_;
    TBuf<TPosition::VECCALC> constants_;
    Scratch lanes_;
    Pool<EXACT> pool_;
    Finish<EXACT> finish_;
    Shape shape_{};
    uint32_t chunk_ = 0;
    uint32_t half_ = 0;
    bool constants_loaded_ = false;
    bool pending_ = false;
    int64_t pending_row_ = 0;
    uint32_t pending_channel_ = 0;
};

}  // namespace

}  // namespace dsv4::tree_compress

// scratch, state: fp32 rows; window: int64 [rows, slots]; closes: bool [rows]; cos, sin: fp32 [rows, rope];
// out: bf16 [rows, dim]. eps + eps_low: norm_eps as two floats. exact: pairs of floats instead of fp32.
extern "C" __global__ __aicore__ void tree_compress(GM_ADDR scratch, GM_ADDR state, GM_ADDR window, GM_ADDR closes,
                                                    GM_ADDR norm_weight, GM_ADDR cos, GM_ADDR sin, GM_ADDR out,
                                                    int64_t rows, int64_t state_rows, uint32_t dim, uint32_t coff,
                                                    uint32_t slots, uint32_t rope, float eps, float eps_low,
                                                    uint32_t exact) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    TPipe pipe;
    const dsv4::tree_compress::Shape shape{rows, state_rows, dim, coff, slots, rope};
    if (exact != 0) {
        dsv4::tree_compress::TreeCompress<true> op;
        op.Init(&pipe, scratch, state, window, closes, norm_weight, cos, sin, out, shape, eps, eps_low);
        op.Process();
    } else {
        dsv4::tree_compress::TreeCompress<false> op;
        op.Init(&pipe, scratch, state, window, closes, norm_weight, cos, sin, out, shape, eps, eps_low);
        op.Process();
    }
}
