#include "settings.h"

#include <cstdlib>
#include <cstring>

#include "abi.h"
#include "host_layer/core.h"

namespace dsv4::host {

namespace {

// The fast build runs one block after another anyway: one core saves the switches.
constexpr uint32_t kDefaultCores = kCheck ? 8 : 1;

bool apply(Settings& settings, const char* mode, int64_t cores, uint64_t seed) {
    if (mode != nullptr && std::strcmp(mode, "strict") != 0 && std::strcmp(mode, "autosync") != 0) return false;
    if (cores < 0 || cores > kMaxCores) return false;
    if (mode != nullptr) settings.autosync = std::strcmp(mode, "autosync") == 0;
    if (cores != 0) settings.cores = static_cast<uint32_t>(cores);
    settings.seed = seed;
    return true;
}

int64_t number(const char* name, int64_t otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::atoll(value) : otherwise;
}

}  // namespace

Settings::Settings() : cores(kDefaultCores) {
    // A bad environment keeps the defaults; dsv4_host_configure reports what it refuses.
    apply(*this, std::getenv("DSV4_HOST_MODE"), number("DSV4_HOST_CORES", 0),
          static_cast<uint64_t>(number("DSV4_HOST_SEED", 1)));
}

Settings& settings() {
    static Settings instance;
    return instance;
}

}  // namespace dsv4::host

extern "C" int dsv4_host_configure(const char* mode, int32_t cores, uint64_t seed) {
    return dsv4::host::apply(dsv4::host::settings(), mode, cores, seed) ? DSV4_OK : DSV4_BAD_ARGUMENT;
}

extern "C" const char* dsv4_build(void) { return dsv4::host::kCheck ? "host-check" : "host-fast"; }
