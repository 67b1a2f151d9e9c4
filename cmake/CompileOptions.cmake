# Options of every target of ours. Third-party headers come in as SYSTEM and are not judged by them.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

add_library(dettax_options INTERFACE)
# Contraction is off everywhere: a fused multiply-add is written where it is meant (hn::MulAdd, std::fma), so that bits depend on
# the source and not on what a compiler chose to fuse.
target_compile_options(dettax_options INTERFACE
  -ffp-contract=off -fno-math-errno
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wnon-virtual-dtor -Woverloaded-virtual
  -Wcast-qual -Wdouble-promotion -Wformat=2 -Wextra-semi -Wundef)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # -Wno-restrict: g++ 12 warns falsely about std::string + at -O3.
  target_compile_options(dettax_options INTERFACE -Wduplicated-cond -Wduplicated-branches -Wlogical-op -Wuseless-cast -Wno-restrict)
endif()
target_compile_definitions(dettax_options INTERFACE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>
  DETTAX_VERSION="${PROJECT_VERSION}")

set(DETTAX_SANITIZE "" CACHE STRING "address,undefined or thread")
if(DETTAX_SANITIZE)
  add_compile_options(-fsanitize=${DETTAX_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${DETTAX_SANITIZE})
  # g++ 12 warns falsely inside <regex> once it is instrumented.
  target_compile_options(dettax_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()
