// The window of one row as runs: consecutive slots of one side that are consecutive rows of one tensor, or absent.
#pragma once

#include "kernel_operator.h"
#include "tree_compress_layout.h"

namespace dsv4::tree_compress {

enum Source : int32_t { STATE, TREE, ABSENT };

struct Run {
    uint32_t slot;
    uint32_t count;
    int64_t row;
    Source source;
};

// The scalar unit reads tables that MTE2 brings; before the next table comes, it must have read the last one.
__aicore__ inline void table_arrives() {
    AscendC::SetFlag<AscendC::HardEvent::MTE2_S>(EVENT_ID0);
    AscendC::WaitFlag<AscendC::HardEvent::MTE2_S>(EVENT_ID0);
}
__aicore__ inline void table_is_read() {
    AscendC::SetFlag<AscendC::HardEvent::S_MTE2>(EVENT_ID0);
    AscendC::WaitFlag<AscendC::HardEvent::S_MTE2>(EVENT_ID0);
}

class Runs {
 public:
    __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR window, int64_t rows, int64_t state_rows, uint32_t slots,
                                uint32_t ratio) {
        window_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(window), rows * slots);
        rows_ = rows;
        state_rows_ = state_rows;
        slots_ = slots;
        ratio_ = ratio;
        pipe->InitBuffer(table_, kMaxSlots * sizeof(int64_t));
        pipe->InitBuffer(runs_, kMaxSlots * COLUMNS * sizeof(int32_t));
    }

    __aicore__ inline uint32_t Count() const { return count_; }

    __aicore__ inline Run Get(uint32_t index) {
        const AscendC::LocalTensor<int32_t> runs = runs_.Get<int32_t>();
        const uint32_t at = index * COLUMNS;
        return {static_cast<uint32_t>(runs.GetValue(at + SLOT)), static_cast<uint32_t>(runs.GetValue(at + COUNT)),
                runs.GetValue(at + ROW), static_cast<Source>(runs.GetValue(at + SOURCE))};
    }

    __aicore__ inline void Find(int64_t row) {
        const AscendC::LocalTensor<int64_t> table = table_.Get<int64_t>();
        table_is_read();
        AscendC::DataCopy(table, window_[row * slots_], slots_);
        table_arrives();
        count_ = 0;
        Run run{0, 0, 0, ABSENT};
        for (uint32_t slot = 0; slot < slots_; ++slot) {
            Source source;
            int64_t source_row;
            Resolve(table.GetValue(slot), source, source_row);
            const bool follows = source == run.source && (source == ABSENT || source_row == run.row + run.count);
            if (slot % ratio_ != 0 && follows) {
                ++run.count;
                continue;
            }
            if (slot != 0) Put(run);
            run = {slot, 1, source_row, source};
        }
        Put(run);
    }

 private:
    enum Column : uint32_t { SLOT, COUNT, ROW, SOURCE, COLUMNS };

    // Any entry is bounded: beyond the tensors it reads their last row, and a state without rows counts as absent.
    __aicore__ inline void Resolve(int64_t entry, Source& source, int64_t& row) {
        source = entry == kAbsent || (entry >= 0 && state_rows_ == 0) ? ABSENT : entry >= 0 ? STATE : TREE;
        row = source == STATE ? entry : source == TREE ? -1 - entry : 0;
        const int64_t last = (source == STATE ? state_rows_ : rows_) - 1;
        if (row > last) row = last;
    }

    __aicore__ inline void Put(const Run& run) {
        const AscendC::LocalTensor<int32_t> runs = runs_.Get<int32_t>();
        const uint32_t at = count_++ * COLUMNS;
        runs.SetValue(at + SLOT, static_cast<int32_t>(run.slot));
        runs.SetValue(at + COUNT, static_cast<int32_t>(run.count));
        runs.SetValue(at + ROW, static_cast<int32_t>(run.row));
        runs.SetValue(at + SOURCE, run.source);
    }

    AscendC::GlobalTensor<int64_t> window_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> table_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> runs_;
    int64_t rows_ = 0;
    int64_t state_rows_ = 0;
    uint32_t slots_ = 0;
    uint32_t ratio_ = 0;
    uint32_t count_ = 0;
};

}  // namespace dsv4::tree_compress
