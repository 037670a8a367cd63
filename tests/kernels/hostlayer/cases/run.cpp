// C entry of the suite: runs one case on 1 KB tensors.
#include <cstring>
#include <vector>

#include "case.h"
#include "launch.h"

namespace cases {

static Case* head = nullptr;

Case::Case(const char* case_name, int case_blocks, KernelMetaType kernel_type, Kernel faulty, Kernel clean)
    : name(case_name), blocks(case_blocks), type(kernel_type), fault(faulty), control(clean), next(head) {
    head = this;
}

}  // namespace cases

using cases::kWords;

extern "C" DSV4_EXPORT int hostlayer_case(const char* name, int faulty, char* error, size_t size) {
    for (cases::Case* c = cases::head; c != nullptr; c = c->next) {
        if (std::strcmp(c->name, name) != 0) continue;
        // Lines of the data cache are 64 B: tensors start on one.
        std::vector<int32_t> memory(3 * kWords + 16);
        const auto start = reinterpret_cast<uintptr_t>(memory.data());
        auto* x = reinterpret_cast<int32_t*>((start + 63) / 64 * 64);
        auto *y = x + kWords, *w = y + kWords;
        for (uint32_t i = 0; i < kWords; ++i) x[i] = static_cast<int32_t>(i);
        dsv4::Launch launch(name, static_cast<uint32_t>(c->blocks), nullptr);
        launch.input(x, kWords * 4, "x");
        launch.output(y, kWords * 4, "y");
        launch.inout(w, kWords * 4, "w");
        return launch.run(
            [&] {
                dsv4::host::declare_kernel_type(c->type);
                cases::Tensors tensors;
                tensors.x.SetGlobalBuffer(x);
                tensors.y.SetGlobalBuffer(y);
                tensors.w.SetGlobalBuffer(w);
                (faulty ? c->fault : c->control)(tensors);
            },
            error, size);
    }
    return dsv4::fail(DSV4_BAD_ARGUMENT, error, size, "no case %s", name);
}

// Names of all cases, separated by blanks.
extern "C" DSV4_EXPORT int hostlayer_names(char* out, size_t size) {
    out[0] = '\0';
    for (cases::Case* c = cases::head; c != nullptr; c = c->next) {
        if (std::strlen(out) + std::strlen(c->name) + 2 > size) return DSV4_BAD_ARGUMENT;
        std::strcat(std::strcat(out, c->name), " ");
    }
    return DSV4_OK;
}
