// Launch of the host builds: cores, their UB, the monitor, and the status of the call.
#include "launch.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "fibers.h"
#include "hazard.h"
#include "host_layer/core.h"
#include "settings.h"
#if DSV4_HOST_CHECK
#include "monitor.h"
#endif

namespace dsv4::host {

thread_local Core* current_core = nullptr;

void meet_all_cores() {
    if (core().count > 1) Fibers::active()->meet();
}

#if !DSV4_HOST_CHECK
const char* file_name(const char* path) { return path; }

void refuse(const char* kind, Where where, const char* format, ...) {
    va_list values;
    va_start(values, format);
    const std::string rule = format_list(format, values);
    va_end(values);
    throw Hazard(text("core %u: %s: %s:%d %s", core().index, kind, where.file, where.line, rule.c_str()));
}
#endif

namespace {

thread_local dsv4_counters last_counters{};

// UB of all cores, kept by the thread.
uint8_t* ub_of(uint32_t index) {
    static thread_local std::vector<std::unique_ptr<uint8_t[]>> memory;
    while (memory.size() <= index) memory.emplace_back(new uint8_t[kUbPhysical + kBlock]);
    const auto address = reinterpret_cast<uintptr_t>(memory[index].get());
    return reinterpret_cast<uint8_t*>((address + kBlock - 1) / kBlock * kBlock);
}

}  // namespace

}  // namespace dsv4::host

namespace dsv4 {

uint32_t aiv_cores() { return host::settings().cores; }

struct Launch::State {
    State(const char* name, uint32_t blocks)
        : kernel(name),
          cores(blocks),
          autosync(host::settings().autosync)
#if DSV4_HOST_CHECK
          ,
          device(name, autosync)
#endif
    {
        for (uint32_t i = 0; i < blocks; ++i) {
            cores[i].index = i;
            cores[i].count = blocks;
            cores[i].ub = host::ub_of(i);
        }
    }

    const char* kernel;
    std::vector<host::Core> cores;
    bool autosync;
#if DSV4_HOST_CHECK
    host::Device device;
    std::vector<std::unique_ptr<host::Monitor>> monitors;
#endif
};

Launch::Launch(const char* kernel, uint32_t blocks, void*) : state_(new State(kernel, blocks)) {}

Launch::~Launch() { delete state_; }

#if DSV4_HOST_CHECK

GmAddress Launch::input(const void* data, uint64_t bytes, const char* name) {
    state_->device.arena.declare(data, bytes, false, name);
    return static_cast<GmAddress>(const_cast<void*>(data));
}

GmAddress Launch::output(void* data, uint64_t bytes, const char* name) {
    state_->device.arena.declare(data, bytes, true, name);
    return static_cast<GmAddress>(data);
}

GmAddress Launch::placed(GmAddress address) const { return state_->device.arena.placed(address); }

int Launch::run(const std::function<void()>& body, char* error, size_t size) {
    if (state_->cores.empty() || state_->cores.size() > host::kMaxCores) {
        return fail(DSV4_BAD_ARGUMENT, error, size, "kernel %s: %zu blocks, allowed 1..%u", state_->kernel,
                    state_->cores.size(), host::kMaxCores);
    }
    dsv4_counters total{};
    for (host::Core& core : state_->cores) {
        state_->monitors.push_back(std::make_unique<host::Monitor>(state_->device, core, state_->autosync));
        core.monitor = state_->monitors.back().get();
    }
    int status = DSV4_OK;
    std::string reason;
    try {
        state_->device.arena.fill(state_->device.regions);
        host::Fibers fibers(state_->kernel, state_->cores, host::settings().seed);
        fibers.run([&] {
            body();
            host::monitor().at_end();
        });
    } catch (const host::Hazard& hazard) {
        status = DSV4_HAZARD;
        reason = hazard.what();
    } catch (const std::exception& failure) {
        status = DSV4_LAUNCH_FAILED;
        reason = host::text("kernel %s: %s", state_->kernel, failure.what());
    }
    for (host::Core& core : state_->cores) core.monitor = nullptr;
    // Also after a failed run, whose reason the damage may be.
    if (const std::string damage = state_->device.arena.damage(); !damage.empty()) {
        status = DSV4_HAZARD;
        reason += host::text("%skernel %s: %s", reason.empty() ? "" : "; ", state_->kernel, damage.c_str());
    }
    if (status == DSV4_OK) {
        state_->device.arena.give_back();
    } else {
        fail(status, error, size, "%s", reason.c_str());
    }
    total.blocks = state_->cores.size();
    for (const auto& monitor : state_->monitors) {
        const dsv4_counters& one = monitor->counters;
        total.dma_in_instructions += one.dma_in_instructions;
        total.dma_in_bytes += one.dma_in_bytes;
        total.dma_out_instructions += one.dma_out_instructions;
        total.dma_out_bytes += one.dma_out_bytes;
        total.scalar_gm_reads += one.scalar_gm_reads;
        total.scalar_gm_writes += one.scalar_gm_writes;
        total.scalar_ub_reads += one.scalar_ub_reads;
        total.scalar_ub_writes += one.scalar_ub_writes;
        total.vector_instructions += one.vector_instructions;
        total.vector_repeats += one.vector_repeats;
        total.sync_all = std::max(total.sync_all, one.sync_all);
        total.peak_ub_bytes = std::max(total.peak_ub_bytes, one.peak_ub_bytes);
    }
    host::last_counters = total;
    return status;
}

#else

GmAddress Launch::input(const void* data, uint64_t, const char*) {
    return static_cast<GmAddress>(const_cast<void*>(data));
}

GmAddress Launch::output(void* data, uint64_t, const char*) { return static_cast<GmAddress>(data); }

int Launch::run(const std::function<void()>& body, char* error, size_t size) {
    try {
        if (state_->cores.size() == 1) {
            host::current_core = &state_->cores[0];
            body();
        } else {
            host::Fibers(state_->kernel, state_->cores, host::settings().seed).run(body);
        }
    } catch (const host::Hazard& hazard) {
        return fail(DSV4_HAZARD, error, size, "kernel %s, %s", state_->kernel, hazard.what());
    } catch (const std::exception& failure) {
        return fail(DSV4_LAUNCH_FAILED, error, size, "kernel %s: %s", state_->kernel, failure.what());
    }
    return DSV4_OK;
}

#endif

}  // namespace dsv4

extern "C" int dsv4_counters_last(dsv4_counters* out) {
    *out = dsv4::host::last_counters;
    return DSV4_OK;
}
