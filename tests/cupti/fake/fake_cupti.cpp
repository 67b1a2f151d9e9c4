// Plays libcupti: same symbols, real structs. Records that it is told to write go through the callbacks for buffers as CUPTI's do.
#include "tests/cupti/fake/fake_cupti.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace {

struct State {
  FakeCupti control{};
  std::recursive_mutex mutex;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_CallbackFunc callback = nullptr;
  void* callback_data = nullptr;
  std::set<std::pair<int, CUpti_CallbackId>> callbacks;
  std::set<CUpti_CallbackId> runtime_off, driver_on;
  std::vector<uint64_t> external;
  size_t size = 0, used = 0;
};

State& state() {
  static State all;
  return all;
}

size_t bytes_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(CUpti_ActivityCudaEvent2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_NAME:
      return sizeof(CUpti_ActivityName);
    default:
      return 0;
  }
}

void complete() {
  State& s = state();
  const std::scoped_lock lock(s.mutex);
  if (s.control.current == nullptr) return;
  uint8_t* buffer = std::exchange(s.control.current, nullptr);
  const size_t cut = s.control.cut_bytes < s.used ? s.control.cut_bytes : s.used;
  s.complete(nullptr, 0, buffer, s.size, s.used - cut);
}

void write(const void* record, size_t bytes) {
  State& s = state();
  if (s.control.current != nullptr && s.used + bytes > s.size) complete();
  if (s.control.current == nullptr) {
    size_t most = 0;
    s.used = 0;
    s.request(&s.control.current, &s.size, &most);
    if (s.control.current == nullptr) {
      ++s.control.dropped;
      ++s.control.refused;
      return;
    }
  }
  std::memcpy(s.control.current + s.used, record, bytes);
  s.used += bytes;
}

bool wanted(const CUpti_Activity& record) {
  State& s = state();
  if (record.kind == CUPTI_ACTIVITY_KIND_DRIVER)
    return s.driver_on.contains(reinterpret_cast<const CUpti_ActivityAPI&>(record).cbid);
  if (!s.control.enabled[record.kind]) return false;
  return record.kind != CUPTI_ACTIVITY_KIND_RUNTIME ||
         !s.runtime_off.contains(reinterpret_cast<const CUpti_ActivityAPI&>(record).cbid);
}

void emit(const void* record, size_t bytes, bool unasked) {
  State& s = state();
  const std::scoped_lock lock(s.mutex);
  const auto& activity = *static_cast<const CUpti_Activity*>(record);
  if (!unasked && !wanted(activity)) return;
  if (activity.kind == CUPTI_ACTIVITY_KIND_RUNTIME && !s.external.empty() &&
      s.control.enabled[CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION]) {
    CUpti_ActivityExternalCorrelation external{};
    external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    external.externalId = s.external.back();
    external.correlationId = static_cast<const CUpti_ActivityAPI*>(record)->correlationId;
    write(&external, sizeof(external));
  }
  write(record, bytes);
}

void call_back(CUpti_CallbackDomain domain, CUpti_CallbackId id, CUpti_ApiCallbackSite site) {
  State& s = state();
  if (s.callback == nullptr || !s.callbacks.contains({domain, id})) return;
  CUpti_CallbackData data{};
  data.callbackSite = site;
  s.callback(s.callback_data, domain, id, &data);
}

void reset() {
  State& s = state();
  s.control = FakeCupti{};
  s.control.version = CUPTI_API_VERSION;
  s.control.reset = reset;
  s.control.emit = emit;
  s.control.complete = complete;
  s.control.call_back = call_back;
  s.callback = nullptr;
  s.callbacks.clear();
  s.runtime_off.clear();
  s.driver_on.clear();
  s.external.clear();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

FakeCupti* fake_cupti() {
  if (state().control.reset == nullptr) reset();
  return &state().control;
}

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = fake_cupti()->version;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_UNKNOWN ? "CUPTI_ERROR_UNKNOWN" : "CUPTI_ERROR";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                           void* data) {
  State& s = state();
  if (s.control.subscribe != CUPTI_SUCCESS) return s.control.subscribe;
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&s);
  s.callback = callback;
  s.callback_data = data;
  ++s.control.subscriptions;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                              void* data, CUpti_SubscriberParams* params) {
  const CUptiResult result = cuptiSubscribe(subscriber, callback, data);
  const char* other = state().control.other_tool;
  if (result != CUPTI_SUCCESS && other != nullptr)
    std::strncpy(params->oldSubscriberName, other, params->oldSubscriberSize);
  return result;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  const std::scoped_lock lock(state().mutex);
  --state().control.subscriptions;
  state().callback = nullptr;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  const std::scoped_lock lock(state().mutex);
  if (enable != 0) state().callbacks.insert({domain, id});
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t id, const char** name) {
  static const std::map<std::pair<int, uint32_t>, const char*> kNames{
      {{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000},
       "cudaLaunchKernel_v7000"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020},
       "cudaMemcpy_v3020"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020},
       "cudaMemsetAsync_v3020"},
      {{CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020},
       "cudaStreamSynchronize_v3020"},
      {{CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel}, "cuLaunchKernel"}};
  const auto found = kNames.find({domain, id});
  if (found == kNames.end()) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = found->second;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  const std::scoped_lock lock(state().mutex);
  FakeCupti& control = state().control;
  ++control.enable_calls;
  if (control.enable == CUPTI_SUCCESS) control.enabled[kind] = true;
  return control.enable;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  const std::scoped_lock lock(state().mutex);
  state().control.enabled[kind] = false;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t enable) {
  const std::scoped_lock lock(state().mutex);
  if (enable == 0) state().runtime_off.insert(id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t enable) {
  const std::scoped_lock lock(state().mutex);
  if (enable != 0) {
    state().driver_on.insert(id);
  } else {
    state().driver_on.erase(id);
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc completed) {
  const std::scoped_lock lock(state().mutex);
  State& s = state();
  if (s.control.register_callbacks != CUPTI_SUCCESS) return s.control.register_callbacks;
  s.request = request;
  s.complete = completed;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, CUpti_Activity** record) {
  const size_t at = *record == nullptr
                        ? 0
                        : static_cast<size_t>(reinterpret_cast<uint8_t*>(*record) - buffer) +
                              bytes_of((*record)->kind);
  if (at == valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* next = reinterpret_cast<CUpti_Activity*>(buffer + at);
  if (at + sizeof(CUpti_ActivityKind) > valid) return CUPTI_ERROR_INVALID_PARAMETER;
  if (bytes_of(next->kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  if (at + bytes_of(next->kind) > valid) return CUPTI_ERROR_INVALID_PARAMETER;
  *record = next;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  const std::scoped_lock lock(state().mutex);
  FakeCupti& control = state().control;
  *dropped = std::exchange(control.dropped, 0);
  return control.dropped_call;
}

CUptiResult cuptiActivityFlushAll(uint32_t) {
  FakeCupti& control = state().control;
  if (!control.keeps_buffers) complete();
  return control.flush;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) {
  ++state().control.attribute_calls;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType) { return CUPTI_SUCCESS; }

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind, uint64_t id) {
  const std::scoped_lock lock(state().mutex);
  state().external.push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, uint64_t* last) {
  const std::scoped_lock lock(state().mutex);
  State& s = state();
  if (s.external.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  *last = s.external.back();
  s.external.pop_back();
  return CUPTI_SUCCESS;
}

}  // extern "C"
#pragma GCC visibility pop
