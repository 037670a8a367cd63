// kv_relocate: each job gathers the rows of its runs into one UB slot, then stores them. See ../README.md.
#include "kernel_operator.h"
#include "kv_relocate_layout.h"

using namespace AscendC;
using namespace dsv4::kv_relocate;

namespace {

// Device addresses of the runs of each move set; null where a launch has fewer sets.
struct RunAddresses {
    GM_ADDR column[kMaxSets][kRunColumns];
};

struct BufferPlan {
    __aicore__ inline BufferPlan() {}

    GlobalTensor<uint8_t> src;
    GlobalTensor<uint8_t> dst;
    int64_t row_bytes;
    int64_t chunk_bytes;
    int64_t move_set;
    int64_t runs;
    int64_t runs_per_job;
    int64_t max_rows;
};

__aicore__ inline int64_t ceil_div(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }
__aicore__ inline int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }

class KvRelocate {
 public:
    __aicore__ inline KvRelocate() {}

    __aicore__ inline void Init(TPipe* pipe, GM_ADDR plan, const RunAddresses& runs, uint32_t buffers, uint32_t slots,
                                uint32_t slot_bytes) {
        buffer_count_ = buffers;
        runs_ = runs;
        plan_.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(plan), (GetBlockNum() + buffers) * kPlanColumns);
        pipe->InitBuffer(block_row_, kPlanColumns * sizeof(int64_t));
        pipe->InitBuffer(buffer_rows_, kBufferWindow * kPlanColumns * sizeof(int64_t));
        pipe->InitBuffer(run_window_, kRunColumns * kRunWindow * sizeof(int64_t));
        pipe->InitBuffer(queue_, slots, slot_bytes);
    }

    __aicore__ inline void Process() {
        LocalTensor<int64_t> row = block_row_.Get<int64_t>();
        DataCopy(row, plan_[GetBlockIdx() * kPlanColumns], kPlanColumns);
        TableArrives();
        int64_t buffer = row.GetValue(FIRST_BUFFER);
        int64_t job = row.GetValue(FIRST_JOB);
        int64_t left = row.GetValue(JOBS);
        buffer_end_ = at_most(buffer + row.GetValue(BUFFERS), buffer_count_);
        while (left > 0 && buffer < buffer_end_) {
            BufferPlan plan;
            LoadBuffer(buffer, plan);
            const int64_t chunks = ceil_div(plan.row_bytes, plan.chunk_bytes);
            const int64_t jobs = ceil_div(plan.runs, plan.runs_per_job) * chunks;
            const int64_t end = at_most(job + left, jobs);
            const int64_t last_run = at_most(((end - 1) / chunks + 1) * plan.runs_per_job, plan.runs);
            // A core that goes on needs the first runs for the next buffer of the set: all come at once if they fit.
            const bool all = left > end - job && plan.runs <= kRunWindow;
            const int64_t first_run = all ? 0 : job / chunks * plan.runs_per_job;
            const int64_t end_run = all ? plan.runs : last_run;
            for (int64_t j = job; j < end; ++j) Move(plan, j / chunks, j % chunks, first_run, end_run);
            left -= end - job;
            job = 0;
            ++buffer;
        }
    }

 private:
    // The scalar unit reads tables that MTE2 brings; before the next table comes, it must have read the last one.
    __aicore__ inline void TableArrives() {
        SetFlag<HardEvent::MTE2_S>(EVENT_ID0);
        WaitFlag<HardEvent::MTE2_S>(EVENT_ID0);
    }
    __aicore__ inline void TableIsRead() {
        SetFlag<HardEvent::S_MTE2>(EVENT_ID0);
        WaitFlag<HardEvent::S_MTE2>(EVENT_ID0);
    }

    __aicore__ inline void LoadBuffer(int64_t index, BufferPlan& plan) {
        LocalTensor<int64_t> rows = buffer_rows_.Get<int64_t>();
        if (index < buffer_window_ || index >= buffer_window_ + buffers_loaded_) {
            buffers_loaded_ = at_most(kBufferWindow, buffer_end_ - index);
            buffer_window_ = index;
            TableIsRead();
            DataCopy(rows, plan_[(GetBlockNum() + index) * kPlanColumns], buffers_loaded_ * kPlanColumns);
            TableArrives();
        }
        const uint32_t at = static_cast<uint32_t>(index - buffer_window_) * kPlanColumns;
        plan.src.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(rows.GetValue(at + SRC)));
        plan.dst.SetGlobalBuffer(reinterpret_cast<__gm__ uint8_t*>(rows.GetValue(at + DST)));
        plan.row_bytes = rows.GetValue(at + ROW_BYTES);
        plan.chunk_bytes = rows.GetValue(at + CHUNK_BYTES);
        plan.move_set = rows.GetValue(at + MOVE_SET);
        plan.runs = rows.GetValue(at + RUNS);
        plan.runs_per_job = rows.GetValue(at + RUNS_PER_JOB);
        plan.max_rows = rows.GetValue(at + MAX_ROWS);
    }

    // Has runs [first, first + count) of the buffer's set in UB, and of runs [begin, end) what fits.
    __aicore__ inline void LoadRuns(const BufferPlan& plan, int64_t first, int64_t count, int64_t begin, int64_t end) {
        if (plan.move_set == run_set_ && first >= run_first_ && first + count <= run_first_ + runs_loaded_) return;
        run_set_ = plan.move_set;
        run_first_ = end - begin <= kRunWindow ? begin : first;
        runs_loaded_ = at_most(kRunWindow, end - run_first_);
        const uint32_t bytes = static_cast<uint32_t>(runs_loaded_ * sizeof(int64_t));
        LocalTensor<int64_t> window = run_window_.Get<int64_t>();
        GlobalTensor<int64_t> runs;
        TableIsRead();
        for (uint32_t column = 0; column < kRunColumns; ++column) {
            runs.SetGlobalBuffer(reinterpret_cast<__gm__ int64_t*>(runs_.column[run_set_][column]), plan.runs);
            DataCopyPad(window[column * kRunWindow], runs[run_first_], DataCopyExtParams{1, bytes, 0, 0, 0},
                        DataCopyPadExtParams<int64_t>{false, 0, 0, 0});
        }
        TableArrives();
    }

    __aicore__ inline int64_t Source(int64_t run) { return Run(RUN_SRC, run); }
    __aicore__ inline int64_t Destination(int64_t run) { return Run(RUN_DST, run); }
    __aicore__ inline int64_t Rows(int64_t run, const BufferPlan& plan) {
        const int64_t rows = Run(RUN_ROWS, run);
        return rows < 0 ? 0 : at_most(rows, plan.max_rows);
    }
    __aicore__ inline int64_t Run(uint32_t column, int64_t run) {
        return run_window_.Get<int64_t>().GetValue(column * kRunWindow + static_cast<uint32_t>(run));
    }

    __aicore__ inline void Move(const BufferPlan& plan, int64_t group, int64_t chunk, int64_t first_run,
                                int64_t end_run) {
        const int64_t first = group * plan.runs_per_job;
        const int64_t count = at_most(plan.runs_per_job, plan.runs - first);
        LoadRuns(plan, first, count, first_run, end_run);
        const int64_t base = first - run_first_;
        bool live = false;
        for (int64_t r = base; r < base + count; ++r) live = live || Rows(r, plan) > 0;
        if (!live) return;

        LocalTensor<uint8_t> slot = queue_.AllocTensor<uint8_t>();
        Transfer<true>(plan, slot, base, count, chunk);
        queue_.EnQue(slot);
        slot = queue_.DeQue<uint8_t>();
        Transfer<false>(plan, slot, base, count, chunk);
        queue_.FreeTensor(slot);
    }

    // One DMA per live run. Whole rows of a run are contiguous; a chunk of columns takes one block per row.
    template <bool GATHER>
    __aicore__ inline void Transfer(const BufferPlan& plan, const LocalTensor<uint8_t>& slot, int64_t base,
                                    int64_t count, int64_t chunk) {
        const int64_t column = chunk * plan.chunk_bytes;
        const int64_t width = at_most(plan.chunk_bytes, plan.row_bytes - column);
        const bool whole = width == plan.row_bytes;
        uint32_t offset = 0;
        for (int64_t r = base; r < base + count; ++r) {
            const int64_t rows = Rows(r, plan);
            if (rows == 0) continue;
            const uint32_t blocks = whole ? 1 : static_cast<uint32_t>(rows);
            const uint32_t bytes = static_cast<uint32_t>(whole ? rows * width : width);
            const uint32_t gap = static_cast<uint32_t>(plan.row_bytes - width);
            if constexpr (GATHER) {
                DataCopyPad(slot[offset], plan.src[Source(r) * plan.row_bytes + column],
                            DataCopyExtParams{static_cast<uint16_t>(blocks), bytes, gap, 0, 0},
                            DataCopyPadExtParams<uint8_t>{false, 0, 0, 0});
            } else {
                DataCopyPad(plan.dst[Destination(r) * plan.row_bytes + column], slot[offset],
                            DataCopyExtParams{static_cast<uint16_t>(blocks), bytes, 0, gap, 0});
            }
            offset += blocks * static_cast<uint32_t>(ceil_div(bytes, 32) * 32);
        }
    }

    GlobalTensor<int64_t> plan_;
    RunAddresses runs_;
    TBuf<TPosition::VECCALC> block_row_;
    TBuf<TPosition::VECCALC> buffer_rows_;
    TBuf<TPosition::VECCALC> run_window_;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue_;
    int64_t buffer_count_ = 0;
    int64_t buffer_end_ = 0;
    int64_t buffer_window_ = 0;
    int64_t buffers_loaded_ = 0;
    int64_t run_set_ = 0;
    int64_t run_first_ = 0;
    int64_t runs_loaded_ = 0;
};

}  // namespace

// plan: int64 [blocks + buffers, 8]; src, dst and rows: int64 columns of the runs of each move set; slots of slot_bytes
// in UB.
extern "C" __global__ __aicore__ void kv_relocate(GM_ADDR plan, GM_ADDR src0, GM_ADDR dst0, GM_ADDR rows0, GM_ADDR src1,
                                                  GM_ADDR dst1, GM_ADDR rows1, GM_ADDR src2, GM_ADDR dst2,
                                                  GM_ADDR rows2, GM_ADDR src3, GM_ADDR dst3, GM_ADDR rows3,
                                                  GM_ADDR src4, GM_ADDR dst4, GM_ADDR rows4, GM_ADDR src5, GM_ADDR dst5,
                                                  GM_ADDR rows5, uint32_t buffers, uint32_t slots,
                                                  uint32_t slot_bytes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    TPipe pipe;
    KvRelocate op;
    op.Init(&pipe, plan,
            {{{src0, dst0, rows0},
              {src1, dst1, rows1},
              {src2, dst2, rows2},
              {src3, dst3, rows3},
              {src4, dst4, rows4},
              {src5, dst5, rows5}}},
            buffers, slots, slot_bytes);
    op.Process();
}
