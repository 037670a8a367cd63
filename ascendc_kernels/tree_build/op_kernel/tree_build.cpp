// tree_build: the draft's candidate pool of each request becomes the topology of a verify round. See ../README.md.
#include "kernel_operator.h"
#include "leaf_heap.h"
#include "request_slice.h"
#include "tree_build_layout.h"
#include "tree_mask.h"

using namespace AscendC;
using namespace dsv4::tree_build;
using dsv4::order;
using dsv4::RequestSlice;
using dsv4::Share;
using dsv4::share_of_core;

namespace {

constexpr int64_t kNone = -1;  // no parent, no link
constexpr int64_t kInert = -2;

__aicore__ inline uint64_t bit(uint32_t node) { return 1ull << node; }

class TreeBuild {
 public:
    struct Shape {
        uint32_t bs;
        uint32_t topk;
        uint32_t steps;
        uint32_t n;
        uint32_t branches;
        uint32_t group;  // requests in UB at a time
    };

    struct Addresses {
        GM_ADDR parent_list, selected, scores, seq_lens;
        GM_ADDR positions, retrieve_index, next_token, next_sibling, parent, depth, ancestors, branch_table, home;
    };

    __aicore__ inline void Init(TPipe* pipe, const Addresses& gm, const Shape& shape, uint32_t wide) {
        shape_ = shape;
        pool_ = pool_of(shape.topk, shape.steps);
        parents_ = parent_list_width(shape.topk, shape.steps);
        columns_ = shape.steps + 1;
        inverse_topk_ = (65536 + shape.topk - 1) / shape.topk;
        const uint32_t n = shape.n;
        InitSlice(pipe, parent_list_, gm.parent_list, parents_, (wide & WIDE_PARENT_LIST) != 0);
        InitSlice(pipe, selected_, gm.selected, n - 1, (wide & WIDE_SELECTED) != 0);
        InitSlice(pipe, scores_, gm.scores, n - 1, false);
        InitSlice(pipe, seq_lens_, gm.seq_lens, 1, (wide & WIDE_SEQ_LENS) != 0);
        InitSlice(pipe, positions_, gm.positions, n, true);
        InitSlice(pipe, retrieve_index_, gm.retrieve_index, n, true);
        InitSlice(pipe, next_token_, gm.next_token, n, true);
        InitSlice(pipe, next_sibling_, gm.next_sibling, n, true);
        InitSlice(pipe, parent_, gm.parent, n, false);
        InitSlice(pipe, depth_, gm.depth, n, false);
        InitSlice(pipe, ancestors_, gm.ancestors, n, true);
        InitSlice(pipe, branch_table_, gm.branch_table, shape.branches * columns_, false);
        InitSlice(pipe, home_, gm.home, n, false);
        pipe->InitBuffer(map_memory_, pool_ * sizeof(int32_t));
        pipe->InitBuffer(children_memory_, kMaxNodes * sizeof(int32_t));
        pipe->InitBuffer(heap_memory_, kMaxNodes * sizeof(int64_t));
        pipe->InitBuffer(index_memory_, shape.group * n * sizeof(int32_t));
        map_ = map_memory_.Get<int32_t>();
        children_ = children_memory_.Get<int32_t>();
        heap_.Init(heap_memory_.Get<int64_t>());
        Duplicate(map_, static_cast<int32_t>(0), static_cast<int32_t>(pool_));
    }

    __aicore__ inline void InitMask(TPipe* pipe, GM_ADDR mask, uint64_t bytes, int32_t mode, GM_ADDR seq_lens,
                                    uint32_t wide) {
        mask_.Init(pipe, mask, bytes, mode, shape_.n, shape_.group);
        if (mode == FULL_MASK)
            mask_.Locate(pipe, seq_lens, (wide & WIDE_SEQ_LENS) != 0, share_of_core(shape_.bs).first);
    }

    __aicore__ inline void Process() {
        const Share share = share_of_core(shape_.bs);
        const uint32_t end = share.first + share.count;
        for (uint32_t first = share.first; first < end; first += shape_.group) {
            const uint32_t count = end - first < shape_.group ? end - first : shape_.group;
            if (first != share.first) GroupIsDone();
            Load(first, count);
            for (uint32_t r = 0; r < count; ++r) Build(r);
            Store(first, count);
        }
    }

 private:
    __aicore__ inline void InitSlice(TPipe* pipe, RequestSlice& slice, GM_ADDR data, uint32_t width, bool wide) {
        slice.Init(pipe, data, shape_.bs, width, wide, shape_.group);
    }

    // Before the buffers take another group: the scalar unit has read the inputs, DMA the outputs.
    __aicore__ inline void GroupIsDone() {
        order<HardEvent::S_MTE2>();
        order<HardEvent::MTE3_V>();
        order<HardEvent::MTE3_S>();
    }

    __aicore__ inline void Load(uint32_t first, uint32_t count) {
        parent_list_.Load(first, count);
        selected_.Load(first, count);
        scores_.Load(first, count);
        seq_lens_.Load(first, count);
        next_token_.Clear(count);
        next_sibling_.Clear(count);
        branch_table_.Clear(count);
        home_.Clear(count);
        const uint32_t rows = count * shape_.n;
        LocalTensor<int32_t> index = index_memory_.Get<int32_t>();
        CreateVecIndex(index, static_cast<int32_t>(first * shape_.n), rows);
        PipeBarrier<PIPE_V>();
        Cast(retrieve_index_.Tensor<int64_t>(), index, RoundMode::CAST_NONE, rows);
        order<HardEvent::MTE2_S>();
        order<HardEvent::V_S>();
    }

    __aicore__ inline void Store(uint32_t first, uint32_t count) {
        order<HardEvent::S_MTE3>();
        positions_.Store(first, count);
        retrieve_index_.Store(first, count);
        next_token_.Store(first, count);
        next_sibling_.Store(first, count);
        parent_.Store(first, count);
        depth_.Store(first, count);
        ancestors_.Store(first, count);
        branch_table_.Store(first, count);
        home_.Store(first, count);
        mask_.Store(first, count, seq_lens_);
    }

    // Request r of the group.
    __aicore__ inline void Build(uint32_t r) {
        row_ = r * shape_.n;
        prefix_ = seq_lens_.Get(r);
        stamp_ += kMaxNodes;
        Attach(0, kNone, 0, bit(0));
        alive_ = bit(0);
        inner_ = 0;
        leaves_ = 1;
        Forward(r);
        if (leaves_ > shape_.branches) Prune(r);
        Link();
        Branches(r * shape_.branches * columns_);
    }

    __aicore__ inline void Attach(uint32_t node, int64_t parent, int64_t depth, uint64_t ancestors) {
        parent_.Set(row_ + node, parent);
        depth_.Set(row_ + node, depth);
        ancestors_.Set(row_ + node, static_cast<int64_t>(ancestors));
        positions_.Set(row_ + node, prefix_ + depth);
        mask_.SetRow(row_ + node, ancestors | bit(node));
        children_.SetValue(node, 0);
    }

    // Parents have lower indices than their children, so one pass settles depth and ancestors.
    __aicore__ inline void Forward(uint32_t r) {
        for (uint32_t node = 1; node < shape_.n; ++node) {
            const int64_t candidate = selected_.Get(r * (shape_.n - 1) + node - 1);
            const int64_t parent = ParentOf(candidate, r * parents_);
            Register(candidate, node);
            const auto above = static_cast<uint32_t>(parent < 0 ? 0 : parent);
            const int64_t depth = depth_.Get(row_ + above) + 1;
            if (parent < 0 || (alive_ & bit(above)) == 0 || depth > shape_.steps) {
                Attach(node, kInert, 0, 0);
                continue;
            }
            Attach(node, parent, depth, static_cast<uint64_t>(ancestors_.Get(row_ + above)) | bit(node));
            children_.SetValue(above, children_.GetValue(above) + 1);
            alive_ |= bit(node);
            if ((inner_ & bit(above)) != 0) ++leaves_;
            inner_ |= bit(above);
        }
    }

    // Node of a candidate's parent, kInert if there is none. `parents`: first element of the request's parent_list.
    __aicore__ inline int64_t ParentOf(int64_t candidate, uint32_t parents) {
        if (candidate < 0 || candidate >= pool_) return kInert;
        // candidate / topk: the reciprocal is exact for every id below 4096.
        const uint32_t beam = (static_cast<uint32_t>(candidate) * inverse_topk_) >> 16;
        if (beam == 0) return 0;
        const int64_t id = parent_list_.Get(parents + beam);
        if (id < 0 || id >= pool_) return kInert;
        const int32_t entry = map_.GetValue(static_cast<uint32_t>(id));
        return entry < stamp_ ? kInert : entry - stamp_;
    }

    // The map takes the first node of a candidate. Entries of earlier requests have a lower stamp.
    __aicore__ inline void Register(int64_t candidate, uint32_t node) {
        if (candidate < 0 || candidate >= pool_) return;
        const auto at = static_cast<uint32_t>(candidate);
        if (map_.GetValue(at) < stamp_) map_.SetValue(at, stamp_ + static_cast<int32_t>(node));
    }

    // Makes the lowest leaf inert until `branches` are left; a parent without children becomes a leaf.
    __aicore__ inline void Prune(uint32_t r) {
        const uint32_t scores = r * (shape_.n - 1);
        heap_.Empty();
        for (uint32_t node = 1; node < shape_.n; ++node) {
            if ((alive_ & ~inner_ & bit(node)) != 0) heap_.Push(Score(scores, node), node);
        }
        for (uint32_t turn = 1; turn < shape_.n && leaves_ > shape_.branches; ++turn) {
            const uint32_t victim = heap_.Pop();
            const auto above = static_cast<uint32_t>(parent_.Get(row_ + victim));
            Attach(victim, kInert, 0, 0);
            alive_ &= ~bit(victim);
            const int32_t children = children_.GetValue(above) - 1;
            children_.SetValue(above, children);
            if (children > 0) {
                --leaves_;
            } else {
                inner_ &= ~bit(above);
                heap_.Push(Score(scores, above), above);
            }
        }
    }

    __aicore__ inline int32_t Score(uint32_t scores, uint32_t node) {
        return static_cast<int32_t>(scores_.Get(scores + node - 1));
    }

    // From the last node to the first: each becomes the first child of its parent, the former first its sibling.
    __aicore__ inline void Link() {
        for (uint32_t node = shape_.n - 1; node > 0; --node) {
            if ((alive_ & bit(node)) == 0) continue;
            const auto above = static_cast<uint32_t>(parent_.Get(row_ + node));
            next_sibling_.Set(row_ + node, next_token_.Get(row_ + above));
            next_token_.Set(row_ + above, node);
        }
    }

    // A branch per leaf, in the order of the leaves; a node is at home in the first branch that passes it.
    __aicore__ inline void Branches(uint32_t table) {
        const uint64_t leaves = alive_ & ~inner_;
        uint64_t housed = 0;
        uint32_t branch = 0;
        for (uint32_t leaf = 0; leaf < shape_.n; ++leaf) {
            if ((leaves & bit(leaf)) == 0) continue;
            uint32_t node = leaf;
            const auto depth = static_cast<int32_t>(depth_.Get(row_ + leaf));
            for (int32_t level = depth; level >= 0; --level) {
                branch_table_.Set(table + branch * columns_ + level, node);
                if ((housed & bit(node)) == 0) home_.Set(row_ + node, branch);
                housed |= bit(node);
                if (level > 0) node = static_cast<uint32_t>(parent_.Get(row_ + node));
            }
            ++branch;
        }
    }

    Shape shape_;
    uint32_t pool_ = 0;     // candidate ids of a request
    uint32_t parents_ = 0;  // elements of a request's parent_list
    uint32_t columns_ = 0;  // of a branch
    uint32_t inverse_topk_ = 0;

    RequestSlice parent_list_, selected_, scores_, seq_lens_;
    RequestSlice positions_, retrieve_index_, next_token_, next_sibling_, parent_, depth_, ancestors_, branch_table_,
        home_;
    TBuf<TPosition::VECCALC> map_memory_, children_memory_, heap_memory_, index_memory_;
    LocalTensor<int32_t> map_;       // candidate -> stamp of the request + node
    LocalTensor<int32_t> children_;  // of each node of the current request
    LeafHeap heap_;
    TreeMask mask_;

    // The current request.
    uint32_t row_ = 0;  // its first node in the group
    int64_t prefix_ = 0;
    int32_t stamp_ = 0;
    uint64_t alive_ = 0;  // nodes that hang on the root
    uint64_t inner_ = 0;  // nodes with children
    uint32_t leaves_ = 0;
};

}  // namespace

// Tensors as in op_host/tree_build.h. wide: bits WIDE_*. mask is not read or written with mask_mode NO_MASK.
extern "C" __global__ __aicore__ void tree_build(GM_ADDR parent_list, GM_ADDR selected, GM_ADDR scores,
                                                 GM_ADDR seq_lens, GM_ADDR positions, GM_ADDR retrieve_index,
                                                 GM_ADDR next_token, GM_ADDR next_sibling, GM_ADDR parent,
                                                 GM_ADDR depth, GM_ADDR ancestors, GM_ADDR branch_table, GM_ADDR home,
                                                 GM_ADDR mask, uint64_t mask_bytes, int32_t mask_mode, uint32_t wide,
                                                 uint32_t bs, uint32_t topk, uint32_t steps, uint32_t n,
                                                 uint32_t branches, uint32_t group) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    TPipe pipe;
    TreeBuild op;
    op.Init(&pipe,
            {parent_list, selected, scores, seq_lens, positions, retrieve_index, next_token, next_sibling, parent,
             depth, ancestors, branch_table, home},
            {bs, topk, steps, n, branches, group}, wide);
    op.InitMask(&pipe, mask, mask_bytes, mask_mode, seq_lens, wide);
    op.Process();
}
