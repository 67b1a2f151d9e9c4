# Run at each build as  cmake -DROOT=<source> -DOUT=<header> -P cmake/git_commit.cmake : writes the commit that is being built into a
# header, with "+changes" where the tree differs from it; "unknown" without git or outside a checkout. Neither is needed to build.
cmake_minimum_required(VERSION 3.25)
set(commit "unknown")
find_program(git_program git)
if(git_program AND EXISTS ${ROOT}/.git)
  execute_process(COMMAND ${git_program} rev-parse HEAD WORKING_DIRECTORY ${ROOT}
                  OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0)
    set(commit ${head})
    execute_process(COMMAND ${git_program} diff --quiet HEAD WORKING_DIRECTORY ${ROOT} ERROR_QUIET RESULT_VARIABLE changed)
    if(NOT changed EQUAL 0)
      string(APPEND commit "+changes")
    endif()
  endif()
endif()
# configure leaves an unchanged file alone, so that nothing is compiled anew.
file(CONFIGURE OUTPUT ${OUT} CONTENT "#pragma once\n\n#define DETTAX_GIT_COMMIT \"${commit}\"\n")
