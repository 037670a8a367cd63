# Two libraries of the same sources: with every rule checked, and without checks for the engine.
option(DSV4_SANITIZE "Build the host libraries with the address and undefined-behaviour sanitizers" OFF)

set(HOST_RUNTIME fibers numbers transfer settings launch)
set(HOST_CHECKER monitor instruction history cache regions arena red_zone)
list(TRANSFORM HOST_RUNTIME REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/host/runtime/\\1.cpp")
list(TRANSFORM HOST_CHECKER REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/host/runtime/\\1.cpp")

function(add_host_library name check)
    add_library(${name} SHARED ${KERNEL_SOURCES} ${OP_HOST_SOURCES} ${HOST_RUNTIME} ${ARGN})
    target_include_directories(${name} PRIVATE
        ${CMAKE_CURRENT_SOURCE_DIR}/include
        ${CMAKE_CURRENT_SOURCE_DIR}/host/include
        ${CMAKE_CURRENT_SOURCE_DIR}/host/runtime)
    target_compile_definitions(${name} PRIVATE DSV4_HOST_CHECK=${check})
    # Both libraries live in one process: nothing but the C ABI may be visible, and no symbol may be unique.
    # Contraction to fused multiply-add would round differently from the vector unit.
    target_compile_options(${name} PRIVATE
        -Wall -Wextra -ffp-contract=off -fvisibility=hidden -fvisibility-inlines-hidden
        $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>
        $<$<BOOL:${DSV4_SANITIZE}>:-fsanitize=address,undefined -fno-sanitize-recover=all -g>)
    target_link_options(${name} PRIVATE $<$<BOOL:${DSV4_SANITIZE}>:-fsanitize=address,undefined>)
endfunction()

add_host_library(dsv4_kernels_host_check 1 ${HOST_CHECKER})
add_host_library(dsv4_kernels_host_fast 0)
