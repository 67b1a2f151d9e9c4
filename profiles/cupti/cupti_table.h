#pragma once

#include <memory>
#include <string>
#include <vector>

#include <cupti.h>

namespace dettax {

// The functions of CUPTI that are used, found in a library at run time: nothing links it, and tests give another one. Those that older
// versions lack may be null.
struct CuptiTable {
  std::string library;  // as it was opened
  uint32_t version = 0;

  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) get_result_string = nullptr;
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiSubscribe_v2) subscribe_v2 = nullptr;  // may be null
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiEnableCallback) enable_callback = nullptr;
  decltype(&cuptiGetCallbackName) get_callback_name = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityEnableRuntimeApi) enable_runtime_api = nullptr;  // may be null
  decltype(&cuptiActivityEnableDriverApi) enable_driver_api = nullptr;    // may be null
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityGetNextRecord) get_next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) get_dropped = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivitySetAttribute) set_attribute = nullptr;
  decltype(&cuptiSetThreadIdType) set_thread_id_type = nullptr;
  decltype(&cuptiActivityPushExternalCorrelationId) push_external = nullptr;
  decltype(&cuptiActivityPopExternalCorrelationId) pop_external = nullptr;

  // "CUPTI_ERROR_UNKNOWN (999)"
  std::string told(CUptiResult result) const;
};

// Opens `library` and finds the functions. Throws Error{infrastructure} with one sentence that names the library or the symbol that is
// missing. The library stays open until the process ends: it has threads and callbacks of its own.
CuptiTable load_cupti(const std::string& library);

// The one that the process already has, else the one that the loader finds, else that of the toolkit this was built with: two copies in
// one process would not know of each other. Throws as above, with the reason of the first.
CuptiTable load_cupti();

}  // namespace dettax
