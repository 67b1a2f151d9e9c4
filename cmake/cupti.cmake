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
