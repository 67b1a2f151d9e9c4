# What must start on a machine without a driver must not ask the loader for one. Run as
#   cmake -DFILES=<program or library,...> -P cmake/needed_libraries.cmake
# No file may need the driver; the program may need nothing of CUDA at all.
cmake_minimum_required(VERSION 3.25)

string(REPLACE "," ";" files "${FILES}")
set(faults "")
foreach(file IN LISTS files)
  execute_process(COMMAND readelf -d ${file} OUTPUT_VARIABLE dynamic RESULT_VARIABLE code)
  if(NOT code EQUAL 0 OR NOT dynamic MATCHES "libc\\.so")
    message(FATAL_ERROR "readelf does not say what ${file} needs")
  endif()
  set(never "libcuda\\.so|libnvidia")
  if(NOT file MATCHES "libdettax_cuda\\.so$")
    string(APPEND never "|libcudart|libcublas|libcudnn|libnccl|libcupti|libdettax_cuda")
  endif()
  string(REGEX MATCHALL "\\(NEEDED\\)[^\n]*(${never})[^\n]*" found "${dynamic}")
  foreach(line IN LISTS found)
    string(APPEND faults "\n  ${file}: ${line}")
  endforeach()
endforeach()
if(NOT faults STREQUAL "")
  message(FATAL_ERROR "libraries that must only be looked for at run time:${faults}")
endif()
