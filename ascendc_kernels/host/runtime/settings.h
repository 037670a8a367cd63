// Settings of the host build.
#pragma once

#include <atomic>
#include <cstdint>

namespace dsv4::host {

struct Settings {
    Settings();  // from the environment

    std::atomic<bool> autosync{false};
    std::atomic<uint32_t> cores{1};
    std::atomic<uint64_t> seed{1};
};

Settings& settings();

}  // namespace dsv4::host
