#include "profiles/cupti/cupti_collector.h"

#include <array>
#include <atomic>
#include <utility>

#include <unistd.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

// CUPTI's callbacks for buffers carry no data of their user, and there is one user a process.
std::atomic<BufferPool*> pool_of_process{nullptr};  // NOLINT(*-avoid-non-const-global-variables)

constexpr std::array kKinds{
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMCPY2,           CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_RUNTIME,           CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
    CUPTI_ACTIVITY_KIND_CUDA_EVENT,        CUPTI_ACTIVITY_KIND_OVERHEAD};

// Calls of the driver that start work: compilers' own launchers do not go through the runtime.
constexpr std::array kDriverLaunches{CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                     CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
                                     CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
                                     CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
                                     CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
                                     CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
                                     CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
                                     CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz};

// Called all the time, and never a reason why a device is idle.
constexpr std::array kNoise{CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020,
                            CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020,
                            CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,
                            CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020,
                            CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000,
                            CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_ptsz_v10000};

constexpr uint32_t kFaultless = 130001;

void ignore_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

}  // namespace

CuptiCollector::CuptiCollector(const CuptiTable& cupti, const Settings& settings)
    : cupti_(cupti),
      settings_(settings),
      pool_(settings.buffers, settings.buffer_bytes),
      decoder_(cupti_) {
  capture_.host = host_name();
  capture_.process = getpid();
}

CuptiCollector::~CuptiCollector() { release(); }

void CuptiCollector::on_request(uint8_t** buffer, size_t* bytes, size_t* records_max) {
  BufferPool* pool = pool_of_process.load();
  *buffer = pool == nullptr ? nullptr : pool->ask();
  *bytes = *buffer == nullptr ? 0 : pool->bytes();
  *records_max = 0;  // as many as fit
}

void CuptiCollector::on_complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  BufferPool* pool = pool_of_process.load();
  if (pool != nullptr && buffer != nullptr) pool->give_back_filled(buffer, valid_bytes);
}

void CuptiCollector::subscribe() {
  const CUpti_CallbackFunc callback =
      settings_.callback == nullptr ? ignore_callback : settings_.callback;
  std::array<char, CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN * 2> other{};
  CUptiResult result = CUPTI_SUCCESS;
  if (cupti_.subscribe_v2 != nullptr) {
    CUpti_SubscriberParams params{};
    params.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
    params.subscriberName = "dettax";
    params.oldSubscriberName = other.data();
    params.oldSubscriberSize = other.size() - 1;
    result = cupti_.subscribe_v2(&subscriber_, callback, settings_.callback_data, &params);
  } else {
    result = cupti_.subscribe(&subscriber_, callback, settings_.callback_data);
  }
  if (result == CUPTI_SUCCESS) return;
  subscriber_ = nullptr;
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
    throw Error(ErrorKind::infrastructure,
                "CUPTI: another profiler has it" +
                    (other[0] == '\0' ? "" : " (" + std::string(other.data()) + ")") +
                    "; one profiler a process is possible, so end that one or do not profile");
  throw Error(ErrorKind::infrastructure, "CUPTI: " + cupti_.library +
                                             " cannot be used here: cuptiSubscribe: " +
                                             cupti_.told(result) + "; is there a driver?");
}

void CuptiCollector::note_fault(CUptiResult result, const std::string& what) {
  if (result != CUPTI_SUCCESS) capture_.notes.push_back(what + ": " + cupti_.told(result));
}

// What is no more than slower or coarser without is a note.
void CuptiCollector::set_up() {
  uint8_t per_thread = 0, zeroed = 1;
  size_t bytes = sizeof(per_thread);
  note_fault(
      cupti_.set_attribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, &bytes, &per_thread),
      "CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER");
  bytes = sizeof(zeroed);
  note_fault(cupti_.set_attribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &bytes, &zeroed),
             "CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER");
  if (settings_.device_buffers > 0) {
    size_t count = settings_.device_buffers;
    bytes = sizeof(count);
    note_fault(
        cupti_.set_attribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, &bytes, &count),
        "CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE");
  }
  if (cupti_.version < kFaultless)
    capture_.notes.push_back("CUPTI " + std::to_string(cupti_.version) + " is older than " +
                             std::to_string(kFaultless) +
                             ", in which faults of waits and of flushing are mended");
}

void CuptiCollector::attach() {
  if (attached()) return;
  BufferPool* none = nullptr;
  if (!pool_of_process.compare_exchange_strong(none, &pool_))
    throw Error(ErrorKind::infrastructure, "CUPTI: another collector of dettax has it");
  try {
    subscribe();
    set_up();
    std::string told;
    if (!check(cupti_.set_thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM),
               "cuptiSetThreadIdType", told) ||
        !check(cupti_.register_callbacks(on_request, on_complete), "cuptiActivityRegisterCallbacks",
               told))
      throw Error(ErrorKind::infrastructure, "CUPTI: " + told);
  } catch (...) {
    release();
    throw;
  }
}

bool CuptiCollector::check(CUptiResult result, const std::string& what, std::string& told) const {
  if (result == CUPTI_SUCCESS) return true;
  told = what + ": " + cupti_.told(result);
  return false;
}

void CuptiCollector::enable_kinds() {
  std::string told;
  bool enabled = true;
  for (const CUpti_ActivityKind kind : kKinds)
    enabled = enabled &&
              check(cupti_.enable(kind), "cuptiActivityEnable(" + std::to_string(kind) + ")", told);
  if (settings_.external)
    enabled = enabled && check(cupti_.enable(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION),
                               "cuptiActivityEnable(EXTERNAL_CORRELATION)", told);
  if (!enabled) throw Error(ErrorKind::infrastructure, "CUPTI: " + told);
  // Calls one by one, behind their kind, which would turn them all on again.
  if (cupti_.enable_runtime_api != nullptr) {
    for (const auto id : kNoise) (void)cupti_.enable_runtime_api(id, 0);  // more records, no fault
  }
  if (cupti_.enable_driver_api == nullptr) return;
  for (const auto id : kDriverLaunches)
    note_fault(cupti_.enable_driver_api(id, 1),
               "cuptiActivityEnableDriverApi(" + std::to_string(static_cast<int>(id)) + ")");
}

void CuptiCollector::enable() {
  if (enabled_) return;
  enabled_ = true;  // also after a fault: release() turns all off
  enable_kinds();
}

void CuptiCollector::start() {
  enable();
  capture_.start_ns = settings_.now_ns();
  capture_.end_ns = 0;
}

void CuptiCollector::flush() {
  std::string told;
  if (!check(cupti_.flush_all(0), "cuptiActivityFlushAll", told)) capture_.losses.faults = told;
}

void CuptiCollector::count_dropped() {
  size_t dropped = 0;
  std::string told;
  if (!check(cupti_.get_dropped(nullptr, 0, &dropped), "cuptiActivityGetNumDroppedRecords", told))
    capture_.losses.faults = told;
  capture_.losses.dropped += static_cast<int64_t>(dropped);
}

void CuptiCollector::stop(bool forced) {
  if (!attached()) return;
  end_step();
  if (capture_.end_ns == 0) capture_.end_ns = settings_.now_ns();
  flush();
  if (forced) {
    std::string told;
    if (!check(cupti_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll(forced)",
               told))
      capture_.losses.faults = told;
  }
  count_dropped();
  capture_.flushed_ns = settings_.now_ns();
  if (pool_.in_use() > 0)
    capture_.losses.faults =
        "CUPTI kept " + std::to_string(pool_.in_use()) + " buffers back when they were asked for";
  release();
  drain();
}

void CuptiCollector::release() {
  if (attached()) {
    // What fails here loses nothing: all that is wanted has been fetched.
    if (enabled_) {
      for (const CUpti_ActivityKind kind : kKinds) (void)cupti_.disable(kind);
      (void)cupti_.disable(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
      if (cupti_.enable_driver_api != nullptr) {
        for (const auto id : kDriverLaunches) (void)cupti_.enable_driver_api(id, 0);
      }
    }
    (void)cupti_.unsubscribe(subscriber_);
  }
  subscriber_ = nullptr;
  enabled_ = false;
  BufferPool* own = &pool_;
  pool_of_process.compare_exchange_strong(own, nullptr);
}

void CuptiCollector::enable_callback(CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  std::string told;
  if (!check(cupti_.enable_callback(1, subscriber_, domain, id), "cuptiEnableCallback", told))
    throw Error(ErrorKind::infrastructure, "CUPTI: " + told);
}

void CuptiCollector::drain() {
  const std::scoped_lock lock(drain_mutex_);
  while (const auto filled = pool_.next_filled()) {
    decoder_.decode(filled->begin, filled->valid_bytes, capture_);
    pool_.recycle(*filled);
  }
  capture_.losses.refused_buffers = pool_.refused();
}

Capture CuptiCollector::take() {
  drain();
  Capture next;
  next.host = capture_.host;
  next.process = capture_.process;
  next.rank = capture_.rank;
  next.world_size = capture_.world_size;
  next.names = capture_.names;
  return std::exchange(capture_, std::move(next));
}

void CuptiCollector::push(uint32_t path, uint32_t ordinal) {
  const CUptiResult result =
      cupti_.push_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, external_id(path, ordinal));
  if (result != CUPTI_SUCCESS)
    capture_.losses.faults = "cuptiActivityPushExternalCorrelationId: " + cupti_.told(result);
}

void CuptiCollector::pop() {
  uint64_t last = 0;
  const CUptiResult result = cupti_.pop_external(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &last);
  if (result != CUPTI_SUCCESS)
    capture_.losses.faults = "cuptiActivityPopExternalCorrelationId: " + cupti_.told(result);
}

void CuptiCollector::begin_step(int64_t index) {
  end_step();
  in_step_ = true;
  step_index_ = index;
  step_start_ns_ = settings_.now_ns();
}

void CuptiCollector::end_step() {
  if (!in_step_) return;
  in_step_ = false;
  DeviceRecord step;
  step.kind = RecordKind::step;
  step.id = static_cast<uint64_t>(step_index_);
  step.start_ns = step_start_ns_;
  step.end_ns = settings_.now_ns();
  const std::scoped_lock lock(drain_mutex_);
  capture_.records.push_back(step);
}

}  // namespace dettax
