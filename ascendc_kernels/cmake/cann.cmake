# Builds with CANN: kernels through its ascendc.cmake (npu), or its CPU debug library (cann-cpu).
set(RUN_MODE npu CACHE STRING "npu, or cpu for CANN's CPU debug library")
set(SOC_VERSION "$ENV{SOC_VERSION}" CACHE STRING "Ascend910B* (Atlas A2) or Ascend910_93* (Atlas A3)")
if(NOT SOC_VERSION)
    set(SOC_VERSION Ascend910_9382)
    message(STATUS "SOC_VERSION is not given, using ${SOC_VERSION}")
endif()
if(NOT SOC_VERSION MATCHES "^Ascend910(B|_93)")
    message(FATAL_ERROR "SOC_VERSION ${SOC_VERSION}: the kernels are written for Ascend910B* and Ascend910_93*")
endif()

set(CANN_INCLUDES
    ${ASCEND_CANN_PACKAGE_PATH}/include
    ${ASCEND_CANN_PACKAGE_PATH}/include/experiment/platform
    ${ASCEND_CANN_PACKAGE_PATH}/${CMAKE_SYSTEM_PROCESSOR}-linux/include)
set(KERNEL_INCLUDES ${CMAKE_CURRENT_SOURCE_DIR}/include)
foreach(source ${KERNEL_SOURCES})
    get_filename_component(folder ${source} DIRECTORY)
    list(APPEND KERNEL_INCLUDES ${folder})
endforeach()

if(RUN_MODE STREQUAL npu)
    foreach(folder tools/tikcpp compiler/tikcpp tikcpp ${CMAKE_SYSTEM_PROCESSOR}-linux/tikcpp)
        if(EXISTS ${ASCEND_CANN_PACKAGE_PATH}/${folder}/ascendc_kernel_cmake/ascendc.cmake)
            set(ASCENDC_CMAKE_DIR ${ASCEND_CANN_PACKAGE_PATH}/${folder}/ascendc_kernel_cmake)
            break()
        endif()
    endforeach()
    if(NOT ASCENDC_CMAKE_DIR)
        message(FATAL_ERROR "no tikcpp/ascendc_kernel_cmake/ascendc.cmake under ${ASCEND_CANN_PACKAGE_PATH}: install "
                            "the CANN toolkit, or build without it with -DDSV4_FORCE_HOST=ON")
    endif()
    include(${ASCENDC_CMAKE_DIR}/ascendc.cmake)

    # Without HAVE_WORKSPACE and HAVE_TILING: all kernel arguments are our own. The default --cce-auto-sync=on stays;
    # the kernels do not depend on it.
    ascendc_library(dsv4_device_kernels STATIC ${KERNEL_SOURCES})
    ascendc_include_directories(dsv4_device_kernels PRIVATE ${KERNEL_INCLUDES})

    add_library(dsv4_kernels_npu SHARED ${OP_HOST_SOURCES} ${CMAKE_CURRENT_SOURCE_DIR}/cann/device_abi.cpp)
    target_compile_definitions(dsv4_kernels_npu PRIVATE DSV4_NPU)
    target_link_directories(dsv4_kernels_npu PRIVATE ${ASCEND_CANN_PACKAGE_PATH}/lib64)
    # The static kernel library also carries the generated aclrtlaunch_<kernel>.h.
    target_link_libraries(dsv4_kernels_npu PRIVATE
        dsv4_device_kernels ascendcl tiling_api register platform ascendalog dl)
elseif(RUN_MODE STREQUAL cpu)
    if(NOT DEFINED ENV{CMAKE_PREFIX_PATH})
        list(APPEND CMAKE_PREFIX_PATH ${ASCEND_CANN_PACKAGE_PATH}/tools/tikicpulib/lib/cmake)
    endif()
    find_package(tikicpulib REQUIRED)
    add_library(dsv4_kernels_npu SHARED
        ${KERNEL_SOURCES} ${OP_HOST_SOURCES} ${CMAKE_CURRENT_SOURCE_DIR}/cann/device_abi.cpp)
    set_target_properties(dsv4_kernels_npu PROPERTIES OUTPUT_NAME dsv4_kernels_cann_cpu)
    target_compile_definitions(dsv4_kernels_npu PRIVATE DSV4_CANN_CPU)
    target_compile_options(dsv4_kernels_npu PRIVATE -g -O0)
    target_link_libraries(dsv4_kernels_npu PRIVATE tikicpulib::${SOC_VERSION})
else()
    message(FATAL_ERROR "RUN_MODE ${RUN_MODE}: npu or cpu")
endif()

target_include_directories(dsv4_kernels_npu PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR}/cann ${CANN_INCLUDES})
target_compile_options(dsv4_kernels_npu PRIVATE -Wall -Wextra -fvisibility=hidden -fvisibility-inlines-hidden)

# torch.ops.dsv4_tree_npu; needs torch and torch_npu.
if(RUN_MODE STREQUAL npu AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/torch_binding/CMakeLists.txt)
    add_subdirectory(torch_binding)
endif()
