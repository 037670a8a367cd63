#include "monitor.h"

#include "fibers.h"
#include "settings.h"

namespace dsv4::host {

namespace {

constexpr const char* kPipes[] = {"S", "V", "MTE2", "MTE3"};

std::string range(const Monitor& monitor, Space space, uint64_t begin, uint64_t end) {
    if (space == Space::UB) {
        return text("UB bytes [%llu, %llu)", static_cast<unsigned long long>(begin),
                    static_cast<unsigned long long>(end));
    }
    const Region* region = monitor.device.regions.find(begin, begin, end);
    if (region == nullptr) region = monitor.device.regions.find(end - 1, begin, end);
    const uint64_t base = region != nullptr ? region->begin : 0;
    return text("GM bytes [%lld, %lld) of %s", static_cast<long long>(begin - base), static_cast<long long>(end - base),
                region != nullptr ? region->name.c_str() : "address 0");
}

}  // namespace

const char* file_name(const char* path) {
    const char* name = path;
    for (const char* c = path; *c != '\0'; ++c) {
        if (*c == '/') name = c + 1;
    }
    return name;
}

Monitor& monitor() { return *core().monitor; }

Monitor::Monitor(Device& shared, Core& owner, bool autosync)
    : device(shared), core(owner), cache(shared.lines, owner.index), defined(kUbPhysical, 0), ub_(Space::UB, autosync) {
    std::memset(core.ub, 0xA5, kUbPhysical);
}

void Monitor::report(const char* kind, Where where, const std::string& rule) const {
    const std::string place = where.line != 0 ? text("%s:%d ", file_name(where.file), where.line) : std::string();
    throw Hazard(text("kernel %s, core %u: %s: %s%s", device.kernel, core.index, kind, place.c_str(), rule.c_str()));
}

void Monitor::report(const LineFault& fault, const char* name, Where where) const {
    const Region* region = device.regions.at_home(fault.address, kCacheLine);
    const auto begin = static_cast<int64_t>(fault.address - region->home);
    report(fault.kind, where,
           text("%s: the line at GM bytes [%lld, %lld) of %s %s (last writer core %d)", name,
                static_cast<long long>(begin), static_cast<long long>(begin + kCacheLine), region->name.c_str(),
                fault.text, fault.writer));
}

void Monitor::access(Space space, const Access& later) {
    History& history = space == Space::UB ? ub_ : device.memory;
    const Access* earlier = history.add(later, clock);
    if (earlier == nullptr) return;
    const char* kind = earlier->core != later.core ? "cross-core race"
                       : !earlier->write           ? "write-after-read race"
                       : later.write               ? "write-after-write race"
                                                   : "read-after-write race";
    const uint64_t begin = std::max(earlier->begin, later.begin), end = std::min(earlier->end, later.end);
    report(kind, later.where,
           text("%s (%s) %s %s, which %s (%s, core %u) at %s:%d %s; no edge between %s and %s", later.name,
                kPipes[later.pipe], later.write ? "writes" : "reads", range(*this, space, begin, end).c_str(),
                earlier->name, kPipes[earlier->pipe], earlier->core, file_name(earlier->where.file),
                earlier->where.line, earlier->write ? "writes" : "reads", kPipes[later.pipe], kPipes[earlier->pipe]));
}

void Monitor::at_end() {
    for (int event = 0; event < AscendC::kHardEvents; ++event) {
        for (uint32_t id = 0; id < kEventIds; ++id) {
            const Flag& flag = flags[event][id];
            if (!flag.set) continue;
            const auto kind = static_cast<AscendC::HardEvent>(event);
            report("flag left set", flag.where,
                   text("SetFlag<%s_%s>(%u) has no WaitFlag", kPipes[AscendC::event_source(kind)],
                        kPipes[AscendC::event_target(kind)], id));
        }
    }
    if (!note.empty()) throw Hazard(text("kernel %s, core %u: %s", device.kernel, core.index, note.c_str()));
    if (const LineFault fault = cache.at_end(); fault.kind != nullptr) report(fault, "end of the kernel", {});
}

void refuse(const char* kind, Where where, const char* format, ...) {
    va_list values;
    va_start(values, format);
    const std::string rule = format_list(format, values);
    va_end(values);
    monitor().report(kind, where, rule);
}

void flag_set(AscendC::HardEvent event, int id, Where where) {
    Monitor& m = monitor();
    if (id < 0 || id >= static_cast<int>(kEventIds)) refuse("event id", where, "SetFlag of id %d, allowed 0..5", id);
    Flag* const flags = m.flags[static_cast<int>(event)];
    // The framework keeps 6 and 7; only the allocator gives them out, when the others are taken.
    bool others_taken = true;
    for (int other = 0; other < 6; ++other) others_taken &= flags[other].claimed || flags[other].set;
    if (id >= 6 && !others_taken) refuse("event id", where, "SetFlag of id %d, which is reserved", id);
    Flag& flag = flags[id];
    if (flag.claimed) refuse("event id", where, "SetFlag of id %d, which a queue holds", id);
    if (flag.set) refuse("flag set twice", where, "SetFlag of id %d, set already at line %d", id, flag.where.line);
    flag.set = true;
    flag.where = where;
    flag.edge = m.clock.publish(AscendC::event_source(event));
}

void flag_wait(AscendC::HardEvent event, int id, Where where) {
    Monitor& m = monitor();
    if (id < 0 || id >= static_cast<int>(kEventIds)) refuse("event id", where, "WaitFlag of id %d, allowed 0..5", id);
    Flag& flag = m.flags[static_cast<int>(event)][id];
    if (!flag.set) refuse("deadlock", where, "WaitFlag of id %d without a SetFlag before it", id);
    flag.set = false;
    m.clock.join(AscendC::event_target(event), flag.edge);
}

void flag_claimed(AscendC::HardEvent event, int id, bool claimed) {
    Flag& flag = monitor().flags[static_cast<int>(event)][id];
    if (claimed && flag.set) refuse("event id", flag.where, "a queue takes id %d while this flag is set", id);
    flag.claimed = claimed;
}

Edge edge_from(pipe_t pipe) { return monitor().clock.publish(pipe); }
void edge_to(pipe_t pipe, const Edge& edge) { monitor().clock.join(pipe, edge); }
void barrier(pipe_t pipe) { monitor().clock.barrier(pipe); }

uint8_t* placed(uint8_t* address) { return monitor().device.arena.placed(address); }

void clean_cache(const GmView& view, bool entire, Where where) {
    Monitor& m = monitor();
    const auto address = reinterpret_cast<uint64_t>(view.data);
    const Region* region = m.device.regions.find(address, address, address + 1);
    if (!entire && region == nullptr) {
        refuse("GM out of bounds", where, "%s", "DataCacheCleanAndInvalid of an address in no tensor");
    }
    if (entire) {
        m.cache.clean_all();
    } else {
        m.cache.clean(region->home + (address - region->begin));
    }
}

// Everything before the barrier on any core and pipe is finished for everything after it.
static void meet(Monitor& m, Where where) {
    if (m.core.count > settings().cores) {
        refuse("deadlock", where, "SyncAll of %u blocks on %u cores: the blocks are not all resident", m.core.count,
               settings().cores.load());
    }
    m.clock.barrier(PIPE_ALL);
    meet_all_cores();
    ++m.epoch;
    ++m.counters.sync_all;
}

void sync_all(Where where) {
    Monitor& m = monitor();
    if (m.core.type != KERNEL_TYPE_MIX_AIV_1_0) {
        refuse("kernel type", where, "%s", "SyncAll() needs KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIV_1_0)");
    }
    meet(m, where);
}

void sync_all_soft(const GmView& workspace, const UbView& local, int32_t used, Where where) {
    Monitor& m = monitor();
    if (used != 0 && used != static_cast<int32_t>(m.core.count)) {
        refuse("limit", where, "host layer: SyncAll of %d of %u cores", used, m.core.count);
    }
    const uint64_t need = uint64_t{m.core.count} * kBlock;
    const auto begin = reinterpret_cast<uint64_t>(workspace.data);
    const Region* region = m.device.regions.find(begin, begin, begin + need);
    if (region == nullptr || begin + need > region->end || local.bytes < need) {
        refuse("SyncAll workspace", where, "GM and UB workspace need %llu bytes each",
               static_cast<unsigned long long>(need));
    }
    if (m.device.soft_workspace != workspace.data) {
        for (uint64_t i = 0; i < need; ++i) {
            if (workspace.data[i] != 0) refuse("SyncAll workspace", where, "%s", "GM workspace is not zeroed");
        }
        m.device.soft_workspace = workspace.data;
    }
    meet(m, where);
}

void undefine(const Buffer& buffer) {
    Monitor& m = monitor();
    std::fill_n(m.defined.begin() + buffer.offset, buffer.bytes, uint8_t{0});
    // Poison what a reader would see; a DMA that still reads the buffer has moved its bytes already.
    std::memset(m.core.ub + buffer.offset, 0xA5, buffer.bytes);
}

void ub_reserved(uint32_t bytes) {
    Monitor& m = monitor();
    m.counters.peak_ub_bytes = std::max<uint64_t>(m.counters.peak_ub_bytes, bytes);
}

void note_at_end(const char* kind, const char* format, ...) {
    va_list values;
    va_start(values, format);
    if (monitor().note.empty()) monitor().note = std::string(kind) + ": " + format_list(format, values);
    va_end(values);
}

}  // namespace dsv4::host
