#include "profiles/cupti/record_decoder.h"

#include <array>
#include <cstdlib>
#include <string>

#include "profiles/classify.h"

namespace dettax {
namespace {

// Every record begins with its kind, and is what that kind says.
template <typename Record>
const Record& as(const CUpti_Activity& record) {
  return *reinterpret_cast<const Record*>(&record);
}

constexpr uint32_t kWithOverheadData = 130000;

const char* name_of_copy(uint8_t kind) {
  static constexpr std::array<const char*, 11> kNames{
      "Memcpy",      "Memcpy HtoD", "Memcpy DtoH", "Memcpy HtoA", "Memcpy AtoH", "Memcpy AtoA",
      "Memcpy AtoD", "Memcpy DtoA", "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP"};
  return kNames[kind < kNames.size() ? kind : 0];
}

const char* name_of_overhead(CUpti_ActivityOverheadKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER:
      return "driver compiler";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH:
      return "buffer flush";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION:
      return "instrumentation";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE:
      return "resource";
    case CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING:
      return "module loading";
    case CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING:
      return "lazy function loading";
    case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL:
      return "command buffer full";
    case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST:
      return "buffer request";
    default:
      return "overhead";
  }
}

// What work on the device has alike, whatever its kind.
template <typename Record>
DeviceRecord work(const Record& from, RecordKind kind, uint32_t name) {
  DeviceRecord to;
  to.kind = kind;
  to.start_ns = static_cast<int64_t>(from.start);
  to.end_ns = static_cast<int64_t>(from.end);
  to.correlation = from.correlationId;
  to.name = name;
  to.device = from.deviceId;
  to.context = from.contextId;
  to.stream = from.streamId;
  return to;
}

DeviceRecord kernel(const CUpti_Activity& record, NameTable& names) {
  const auto& from = as<CUpti_ActivityKernel10>(record);
  DeviceRecord to =
      work(from, RecordKind::kernel, names.intern(from.name == nullptr ? "kernel" : from.name));
  to.graph = from.graphId;
  return to;
}

template <typename Copy>
DeviceRecord copy(const CUpti_Activity& record, NameTable& names) {
  const auto& from = as<Copy>(record);
  DeviceRecord to = work(from, RecordKind::copy, names.intern(name_of_copy(from.copyKind)));
  to.bytes = from.bytes;
  to.detail = from.copyKind;
  to.graph = from.graphId;
  return to;
}

DeviceRecord memset(const CUpti_Activity& record, NameTable& names) {
  const auto& from = as<CUpti_ActivityMemset4>(record);
  DeviceRecord to = work(from, RecordKind::memset, names.intern("Memset"));
  to.bytes = from.bytes;
  to.graph = from.graphId;
  return to;
}

DeviceRecord synchronize(const CUpti_Activity& record) {
  const auto& from = as<CUpti_ActivitySynchronization2>(record);
  DeviceRecord to;
  to.kind = RecordKind::synchronize;
  to.start_ns = static_cast<int64_t>(from.start);
  to.end_ns = static_cast<int64_t>(from.end);
  to.correlation = from.correlationId;
  to.context = from.contextId;
  to.stream = from.streamId;
  to.detail = static_cast<uint8_t>(from.type);
  return to;
}

DeviceRecord event(const CUpti_Activity& record) {
  const auto& from = as<CUpti_ActivityCudaEvent2>(record);
  DeviceRecord to;
  to.kind = RecordKind::event;
  to.correlation = from.correlationId;
  to.context = from.contextId;
  to.stream = from.streamId;
  return to;
}

DeviceRecord external(const CUpti_ActivityExternalCorrelation& from) {
  DeviceRecord to;
  to.kind = RecordKind::external;
  to.correlation = from.correlationId;
  to.id = from.externalId;
  return to;
}

// Of this version; 0 of kinds that are not asked for.
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
    default:
      return 0;
  }
}

}  // namespace

DeviceRecord RecordDecoder::overhead(const CUpti_Activity& record, NameTable& names) const {
  const auto& from = as<CUpti_ActivityOverhead3>(record);
  DeviceRecord to;
  to.kind = RecordKind::overhead;
  to.start_ns = static_cast<int64_t>(from.start);
  to.end_ns = static_cast<int64_t>(from.end);
  to.name = names.intern(name_of_overhead(from.overheadKind));
  if (from.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD) to.thread = from.objectId.pt.threadId;
  // Ours to free, as CUPTI's header says.
  if (cupti_.version >= kWithOverheadData) std::free(from.overheadData);  // NOLINT
  return to;
}

uint32_t RecordDecoder::call_name(CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                  NameTable& names) {
  const uint64_t key = (uint64_t{static_cast<uint32_t>(domain)} << 32U) | id;
  const auto known = call_names_.find(key);
  if (known != call_names_.end()) return known->second;
  const char* told = nullptr;
  const bool named =
      cupti_.get_callback_name(domain, id, &told) == CUPTI_SUCCESS && told != nullptr;
  const uint32_t name = names.intern(named ? without_version(told) : "call " + std::to_string(id));
  call_names_.emplace(key, name);
  return name;
}

void RecordDecoder::add(const CUpti_Activity& record, Capture& capture) {
  NameTable& names = capture.names;
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      capture.records.push_back(kernel(record, names));
      return;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      capture.records.push_back(copy<CUpti_ActivityMemcpy6>(record, names));
      return;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      capture.records.push_back(copy<CUpti_ActivityMemcpyPtoP4>(record, names));
      return;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      capture.records.push_back(memset(record, names));
      return;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const auto& from = as<CUpti_ActivityAPI>(record);
      const bool driver = record.kind == CUPTI_ACTIVITY_KIND_DRIVER;
      DeviceRecord to;
      to.kind = driver ? RecordKind::driver_call : RecordKind::call;
      to.start_ns = static_cast<int64_t>(from.start);
      to.end_ns = static_cast<int64_t>(from.end);
      to.correlation = from.correlationId;
      to.thread = from.threadId;
      to.name = call_name(driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API,
                          from.cbid, names);
      capture.records.push_back(to);
      return;
    }
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      capture.records.push_back(synchronize(record));
      return;
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      capture.records.push_back(event(record));
      return;
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      capture.records.push_back(overhead(record, names));
      return;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& from = as<CUpti_ActivityExternalCorrelation>(record);
      if (from.externalKind == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
        capture.records.push_back(external(from));
      return;
    }
    default:
      ++capture.losses.unknown;
  }
}

// CUPTI passes over half a record at the end of a buffer without a word (measured with 13.0). How long records of a kind are is seen
// where another one follows; of the version that this was built with it is known.
bool RecordDecoder::ends_with(const CUpti_Activity& last, size_t bytes) const {
  const auto seen = bytes_of_kind_.find(static_cast<int>(last.kind));
  if (seen != bytes_of_kind_.end()) return seen->second == bytes;
  const size_t built_with = cupti_.version == CUPTI_API_VERSION ? bytes_of(last.kind) : 0;
  return built_with == 0 || built_with == bytes;
}

void RecordDecoder::decode(uint8_t* buffer, size_t valid_bytes, Capture& capture) {
  CUpti_Activity* record = nullptr;
  for (;;) {
    const CUpti_Activity* last = record;
    const CUptiResult result = cupti_.get_next_record(buffer, valid_bytes, &record);
    const auto at = reinterpret_cast<const uint8_t*>(last);
    if (result == CUPTI_ERROR_MAX_LIMIT_REACHED) {
      const bool whole = last == nullptr
                             ? valid_bytes == 0
                             : ends_with(*last, static_cast<size_t>(buffer + valid_bytes - at));
      if (!whole) ++capture.losses.broken_buffers;
      return;
    }
    if (result != CUPTI_SUCCESS) {
      ++capture.losses.broken_buffers;
      return;
    }
    if (last != nullptr)
      bytes_of_kind_[static_cast<int>(last->kind)] =
          static_cast<size_t>(reinterpret_cast<const uint8_t*>(record) - at);
    add(*record, capture);
  }
}

}  // namespace dettax
