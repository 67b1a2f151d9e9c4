# CUPTI's collector and libdettax_inject.so, where CUPTI's headers are. Neither links anything of CUDA: functions are found at run time.
# Without the headers the product is the same but for these.
find_path(CUPTI_HEADERS cupti.h HINTS /usr/local/cuda/include /usr/local/cuda/extras/CUPTI/include)
if(NOT CUPTI_HEADERS)
  message(STATUS "CUPTI: built without its collector and libdettax_inject.so")
  return()
endif()
find_file(CUPTI_LIBRARY libcupti.so HINTS ${CUPTI_HEADERS}/../lib64 ${CUPTI_HEADERS}/../lib ${CUPTI_HEADERS}/../extras/CUPTI/lib64)
if(NOT CUPTI_LIBRARY)
  set(CUPTI_LIBRARY libcupti.so)
endif()

dettax_module(cupti profiles/cupti DEPENDS profiles LIBRARIES ${CMAKE_DL_LIBS})
target_include_directories(dettax_cupti SYSTEM PUBLIC ${CUPTI_HEADERS})
target_compile_definitions(dettax_cupti PRIVATE DETTAX_TOOLKIT_CUPTI="${CUPTI_LIBRARY}")

# What it needs of the modules is compiled again: those are no position-independent code. Its C++ library is inside, so that it meets none
# of the trainers it is loaded into.
file(GLOB inject_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/profiles/inject/*.cpp)
file(GLOB collector_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/profiles/cupti/*.cpp)
add_library(dettax_inject MODULE ${inject_sources} ${collector_sources} harness/base/text.cpp profiles/capture/capture_writer.cpp profiles/classify.cpp
            profiles/host_recorder.cpp profiles/name_table.cpp profiles/step_names.cpp profiles/trace.cpp)
target_include_directories(dettax_inject SYSTEM PRIVATE ${CUPTI_HEADERS})
target_include_directories(dettax_inject PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_definitions(dettax_inject PRIVATE DETTAX_TOOLKIT_CUPTI="${CUPTI_LIBRARY}" FMT_HEADER_ONLY)
target_link_libraries(dettax_inject PRIVATE dettax_options Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(dettax_inject PROPERTIES CXX_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON
  LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
target_link_options(dettax_inject PRIVATE -Wl,-z,nodelete
  -Wl,--version-script=${PROJECT_SOURCE_DIR}/profiles/inject/exports.map)
if(NOT DETTAX_SANITIZE)
  target_link_options(dettax_inject PRIVATE -static-libstdc++ -static-libgcc -Wl,--no-undefined)
endif()
install(TARGETS dettax_inject LIBRARY DESTINATION lib)
