# libdettax_cuda.so, where nvcc is: the program finds it beside itself and loads it only where a driver answers. Without nvcc the
# product is the same but for this file. DETTAX_CUDA=OFF leaves it out, ON wants it. One architecture by default; for a release:
#   -DCMAKE_CUDA_ARCHITECTURES="80-real;90-real;100"       (the last one also as PTX, for what comes after)
set(DETTAX_CUDA AUTO CACHE STRING "build libdettax_cuda.so: AUTO, ON or OFF")
set(dettax_has_cuda OFF)
# What the CUDA part needs of the modules below is compiled again: those are no position-independent code.
set(DETTAX_CUDA_SHARED_SOURCES ${PROJECT_SOURCE_DIR}/harness/base/random.cpp ${PROJECT_SOURCE_DIR}/harness/device/number_format.cpp
    ${PROJECT_SOURCE_DIR}/harness/device/op_contracts.cpp ${PROJECT_SOURCE_DIR}/harness/device/fused_loss_chunks.cpp
    ${PROJECT_SOURCE_DIR}/harness/device/cpu/jitter.cpp ${PROJECT_SOURCE_DIR}/harness/device/cpu/quantize_scales.cpp)
# Device code cannot be instrumented, and a plug-in of which only half is would be none.
if(DETTAX_CUDA AND NOT DETTAX_SANITIZE AND NOT CMAKE_CXX_FLAGS MATCHES "--coverage")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90)
    endif()
    enable_language(CUDA)
    set(dettax_has_cuda ON)
  elseif(NOT DETTAX_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "DETTAX_CUDA=${DETTAX_CUDA}, but there is no nvcc; put it on PATH or name it in CUDACXX")
  endif()
endif()
if(NOT dettax_has_cuda)
  message(STATUS "CUDA: built without libdettax_cuda.so")
  return()
endif()

# CMake 3.25 does not know that nvcc has C++20.
foreach(kind STANDARD EXTENSION)
  if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
  endif()
endforeach()
if(NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/harness/device/cuda/*.cu
     ${PROJECT_SOURCE_DIR}/harness/device/cuda/runtime/*.cpp)
add_library(dettax_cuda_plugin MODULE ${cuda_sources} ${DETTAX_CUDA_SHARED_SOURCES})
string(REPLACE ";" ", sm_" cuda_architectures "${CMAKE_CUDA_ARCHITECTURES}")
target_compile_definitions(dettax_cuda_plugin PRIVATE DETTAX_VERSION="${PROJECT_VERSION}"
  DETTAX_CUDA_MADE_FOR="CUDA ${CMAKE_CUDA_COMPILER_VERSION}, sm_${cuda_architectures}")
# No contraction, as everywhere: kernels write fmaf where it is meant, and the emulation computes the same.
target_compile_options(dettax_cuda_plugin PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false --expt-relaxed-constexpr -Xcompiler=-ffp-contract=off>)
target_include_directories(dettax_cuda_plugin PRIVATE ${PROJECT_SOURCE_DIR})
# cuBLASLt is shared: it is large, and its user's to choose; doctor says so where the loader does not find it.
find_package(CUDAToolkit REQUIRED)
target_link_libraries(dettax_cuda_plugin PRIVATE CUDA::cudart_static CUDA::cublasLt)
set_target_properties(dettax_cuda_plugin PROPERTIES OUTPUT_NAME dettax_cuda CUDA_RUNTIME_LIBRARY Static
  CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON COMPILE_WARNING_AS_ERROR OFF
  LINK_FLAGS "-Wl,--exclude-libs,ALL -Wl,--no-undefined" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
install(TARGETS dettax_cuda_plugin LIBRARY DESTINATION lib)
