// tree_verify_greedy: follows the target's argmax down the links and accepts the path. See ../README.md.
#include "kernel_operator.h"
#include "request_slice.h"
#include "tree_verify_greedy_layout.h"

using namespace AscendC;
using namespace dsv4::tree_verify_greedy;
using dsv4::order;
using dsv4::RequestSlice;
using dsv4::Share;
using dsv4::share_of_core;

namespace {

class TreeVerifyGreedy {
 public:
    struct Shape {
        uint32_t bs;
        uint32_t n;
        uint32_t columns;
        uint32_t group;  // requests in UB at a time
    };

    __aicore__ inline void Init(TPipe* pipe, const Shape& shape, uint32_t wide) {
        pipe_ = pipe;
        shape_ = shape;
        wide_ = wide;
    }

    __aicore__ inline void Bind(Operand which, GM_ADDR data) {
        const uint32_t width = which == ACCEPT_INDEX ? shape_.columns : which == ACCEPT_TOKEN_NUM ? 1 : shape_.n;
        slices_[which].Init(pipe_, data, shape_.bs, width, (wide_ >> which & 1) != 0, shape_.group);
    }

    __aicore__ inline void Process() {
        const Share share = share_of_core(shape_.bs);
        const uint32_t end = share.first + share.count;
        for (uint32_t first = share.first; first < end; first += shape_.group) {
            const uint32_t count = end - first < shape_.group ? end - first : shape_.group;
            if (first != share.first) GroupIsDone();
            // predicts and accept_index keep what the walk does not write: they are read and written whole.
            for (uint32_t i = 0; i < OPERANDS; ++i) {
                if (i != ACCEPT_TOKEN_NUM) slices_[i].Load(first, count);
            }
            order<HardEvent::MTE2_S>();
            for (uint32_t r = 0; r < count; ++r) Walk(r, first + r);
            order<HardEvent::S_MTE3>();
            for (uint32_t i = PREDICTS; i <= ACCEPT_TOKEN_NUM; ++i) slices_[i].Store(first, count);
        }
    }

 private:
    // Before the buffers take another group: the scalar unit has read the inputs, DMA the outputs.
    __aicore__ inline void GroupIsDone() {
        order<HardEvent::S_MTE2>();
        order<HardEvent::MTE3_MTE2>();
        order<HardEvent::MTE3_S>();
    }

    // Request r of the group, `request` of the batch. A turn looks at one node and a tree has each node once: n-1 turns
    // are enough for any tree and bound any cycle.
    __aicore__ inline void Walk(uint32_t r, uint32_t request) {
        row_ = r * shape_.n;
        base_ = static_cast<uint64_t>(request) * shape_.n;
        accepted_ = r * shape_.columns;
        const uint64_t root = Local(0);
        if (root < shape_.n) Accept(0, root);
        // A root whose retrieve_index is another request's is not reported; its target is the nearest of its own rows.
        const uint32_t nearest = root < shape_.n ? static_cast<uint32_t>(root) : root >> 63 != 0 ? 0 : shape_.n - 1;
        int64_t wanted = At(TARGET, nearest);
        int64_t current = At(NEXT_TOKEN, 0);
        uint32_t count = 0;
        for (uint32_t turn = 1; turn < shape_.n; ++turn) {
            if (current <= 0 || current >= shape_.n || count + 1 >= shape_.columns) break;
            const auto node = static_cast<uint32_t>(current);
            const uint64_t local = Local(node);
            const bool match = local < shape_.n && At(CANDIDATES, node) == wanted;
            if (match) {
                ++count;
                Accept(count, local);
                wanted = At(TARGET, static_cast<uint32_t>(local));
            }
            current = match ? At(NEXT_TOKEN, node) : At(NEXT_SIBLING, node);
        }
        slices_[ACCEPT_TOKEN_NUM].Set(r, count);
    }

    __aicore__ inline int64_t At(Operand which, uint32_t node) { return slices_[which].Get(row_ + node); }

    // Row of the request that a node's retrieve_index names; at least n if it names none of its rows.
    __aicore__ inline uint64_t Local(uint32_t node) { return static_cast<uint64_t>(At(RETRIEVE_INDEX, node)) - base_; }

    __aicore__ inline void Accept(uint32_t column, uint64_t local) {
        const auto node = static_cast<uint32_t>(local);
        slices_[ACCEPT_INDEX].Set(accepted_ + column, static_cast<int64_t>(base_ + local));
        slices_[PREDICTS].Set(row_ + node, At(TARGET, node));
    }

    TPipe* pipe_ = nullptr;
    Shape shape_;
    uint32_t wide_ = 0;
    RequestSlice slices_[OPERANDS];

    // The current request.
    uint32_t row_ = 0;       // its first node in the group
    uint64_t base_ = 0;      // its first node in the batch
    uint32_t accepted_ = 0;  // its first column of accept_index in the group
};

}  // namespace

// Tensors as in op_host/tree_verify_greedy.h. wide: bit i, tensor i is int64.
extern "C" __global__ __aicore__ void tree_verify_greedy(GM_ADDR predicts, GM_ADDR accept_index,
                                                         GM_ADDR accept_token_num, GM_ADDR candidates,
                                                         GM_ADDR retrieve_index, GM_ADDR next_token,
                                                         GM_ADDR next_sibling, GM_ADDR target, uint32_t wide,
                                                         uint32_t bs, uint32_t n, uint32_t columns, uint32_t group) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    TPipe pipe;
    TreeVerifyGreedy op;
    op.Init(&pipe, {bs, n, columns, group}, wide);
    op.Bind(PREDICTS, predicts);
    op.Bind(ACCEPT_INDEX, accept_index);
    op.Bind(ACCEPT_TOKEN_NUM, accept_token_num);
    op.Bind(CANDIDATES, candidates);
    op.Bind(RETRIEVE_INDEX, retrieve_index);
    op.Bind(NEXT_TOKEN, next_token);
    op.Bind(NEXT_SIBLING, next_sibling);
    op.Bind(TARGET, target);
    op.Process();
}
