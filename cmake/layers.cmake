# The include graph: a folder may include itself and the folders named behind it, nothing else. Run as
#   cmake -DROOT=<source> -P cmake/layers.cmake
# Only quoted includes of files in this tree are judged; own headers are always included that way, from the root. tests/ and main.cpp are free.
cmake_minimum_required(VERSION 3.25)

set(folders harness/base harness/plan harness/device harness/comm harness/train results results/analysis profiles harness/measure harness/evidence
            harness/launch exporters suites harness/cli)
set(may_harness/base "")
set(may_harness/plan harness/base)
set(may_harness/device harness/base harness/plan)
set(may_harness/comm harness/base harness/plan harness/device)
set(may_harness/train harness/base harness/plan harness/device harness/comm)
set(may_results harness/base harness/plan)
set(may_results/analysis harness/base harness/plan results)
set(may_profiles harness/base harness/plan harness/device results)
set(may_harness/measure harness/base harness/plan results)
# evidence fingerprints tensors where they are, hence device
set(may_harness/evidence harness/base harness/plan harness/device harness/train results)
set(may_harness/launch harness/base harness/plan harness/device harness/comm harness/train results profiles harness/measure
                       harness/evidence)
set(may_exporters harness/base harness/plan results results/analysis)
set(may_suites harness/base harness/plan harness/device harness/comm harness/train harness/measure harness/evidence harness/launch results
               results/analysis profiles exporters)
set(may_harness/cli ${folders})

function(folder_of path out)
  set(best "")
  foreach(folder IN LISTS folders)
    string(FIND "${path}" "${folder}/" at)
    if(at EQUAL 0)
      set(best ${folder})
    endif()
  endforeach()
  set(${out} "${best}" PARENT_SCOPE)
endfunction()

set(faults "")
foreach(folder IN LISTS folders)
  file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/${folder}/*.h ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.cu ${ROOT}/${folder}/*.cuh)
  foreach(file IN LISTS files)
    folder_of("${file}" own)
    if(NOT own STREQUAL folder)  # of a folder inside this one, with a line of its own
      continue()
    endif()
    file(STRINGS ${ROOT}/${file} lines REGEX "^#include \"")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]*)\".*" "\\1" included "${line}")
      if(NOT EXISTS ${ROOT}/${included})  # another project's header, as Highway wants its own quoted
        continue()
      endif()
      folder_of("${included}" target)
      if(target STREQUAL "" OR NOT (target STREQUAL folder OR target IN_LIST may_${folder}))
        string(APPEND faults "\n  ${file} (${folder}) includes ${included}")
      endif()
    endforeach()
  endforeach()
endforeach()
if(NOT faults STREQUAL "")
  message(FATAL_ERROR "includes that cmake/layers.cmake does not allow:${faults}")
endif()
