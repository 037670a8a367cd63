// The checker: one Monitor per core, one Device per launch.
#pragma once

#include <memory>
#include <string>

#include "abi.h"
#include "arena.h"
#include "cache.h"
#include "clock.h"
#include "hazard.h"
#include "history.h"
#include "regions.h"

namespace dsv4::host {

struct Device {
    Device(const char* kernel_name, bool autosync) : kernel(kernel_name), memory(Space::GM, autosync) {}

    const char* kernel;
    Arena arena;
    Regions regions;
    History memory;
    SharedLines lines;
    const uint8_t* soft_workspace = nullptr;  // last workspace of the software SyncAll
};

struct Flag {
    bool set = false;
    bool claimed = false;  // a queue holds the id
    Edge edge;
    Where where;
};

class Monitor {
 public:
    Monitor(Device& device, Core& core, bool autosync);

    // Ends the launch with "kernel k, core 3: <kind>: file:line <text>".
    [[noreturn]] void report(const char* kind, Where where, const std::string& text) const;
    [[noreturn]] void report(const LineFault& fault, const char* name, Where where) const;

    void access(Space space, const Access& access);
    void at_end();

    Device& device;
    Core& core;
    Clock clock;
    Cache cache;
    uint32_t epoch = 0;
    Flag flags[AscendC::kHardEvents][kEventIds];
    dsv4_counters counters{};
    std::vector<uint8_t> defined;  // per UB byte
    std::string note;              // found where nothing may be thrown

 private:
    History ub_;
};

Monitor& monitor();

}  // namespace dsv4::host
