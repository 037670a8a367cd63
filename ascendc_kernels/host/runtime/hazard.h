// A broken rule: ends the launch and becomes the error text of the op call.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace dsv4::host {

class Hazard : public std::runtime_error {
 public:
    using std::runtime_error::runtime_error;
};

inline std::string format_list(const char* format, va_list values) {
    char text[512];
    vsnprintf(text, sizeof(text), format, values);
    return text;
}

__attribute__((format(printf, 1, 2))) inline std::string text(const char* format, ...) {
    va_list values;
    va_start(values, format);
    std::string result = format_list(format, values);
    va_end(values);
    return result;
}

// The file's name without its folders.
const char* file_name(const char* path);

}  // namespace dsv4::host
