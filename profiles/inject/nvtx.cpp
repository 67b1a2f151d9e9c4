// What NVTX calls in a program that was told NVTX_INJECTION64_PATH: every shared object with NVTX in it asks for itself.
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include <nvtx3/nvToolsExt.h>

#include "profiles/inject/injection.h"

namespace dettax {
namespace {

using Cue = RangeRecorder::Cue;
constexpr int kNoTool = -2;  // NVTX's own word for it

// Texts are numbers in the clothes of NVTX's handles.
template <typename Handle>
Handle handle_of(uint32_t number) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): what NVTX takes
  return reinterpret_cast<Handle>(static_cast<uintptr_t>(number));
}
template <typename Handle>
uint32_t number_of(Handle handle) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(handle));
}

std::string narrow(const wchar_t* text) {
  std::string plain;
  for (; text != nullptr && *text != 0; ++text)
    plain += *text > 0 && *text < 128 ? static_cast<char>(*text) : '?';
  return plain;
}
std::string_view safe(const char* text) { return text == nullptr ? "" : text; }

// Runs `call` with the recorder, or gives `otherwise`. Nothing may be thrown into the program.
template <typename Result, typename Call>
Result with_ranges(Result otherwise, const Call& call) {
  try {
    InjectedSession* session = injected_session();
    RangeRecorder* ranges = session == nullptr ? nullptr : session->ranges();
    return ranges == nullptr ? otherwise : call(*session, *ranges);
  } catch (const std::exception&) {
    return otherwise;  // no memory: this range is missing
  }
}

uint32_t message_of(RangeRecorder& ranges, const nvtxEventAttributes_t* event) {
  if (event == nullptr) return 0;
  switch (event->messageType) {
    case NVTX_MESSAGE_TYPE_ASCII:
      return ranges.text(safe(event->message.ascii));
    case NVTX_MESSAGE_TYPE_UNICODE:
      return ranges.text(narrow(event->message.unicode));
    case NVTX_MESSAGE_TYPE_REGISTERED:
      return number_of(event->message.registered);
    default:
      return 0;
  }
}

template <typename Name>
int push(uint32_t domain, const Name& name) {
  return with_ranges(kNoTool, [&](InjectedSession& session, RangeRecorder& ranges) {
    int depth = 0;
    session.act(ranges.push(domain, name(ranges), &depth));
    return depth;
  });
}
int pop(uint32_t domain) {
  return with_ranges(kNoTool, [&](InjectedSession& session, RangeRecorder& ranges) {
    int depth = 0;
    session.act(ranges.pop(domain, &depth));
    return depth;
  });
}
template <typename Name>
uint64_t start(uint32_t domain, const Name& name) {
  return with_ranges(uint64_t{0}, [&](InjectedSession& session, RangeRecorder& ranges) {
    Cue cue = Cue::none;
    const uint64_t id = ranges.start(domain, name(ranges), &cue);
    session.act(cue);
    return id;
  });
}
void end(uint64_t id) {
  with_ranges(0, [&](InjectedSession& session, RangeRecorder& ranges) {
    session.act(ranges.end(id));
    return 0;
  });
}
template <typename Handle, typename Text>
Handle registered(const Text& text) {
  return with_ranges(Handle{}, [&](InjectedSession&, RangeRecorder& ranges) {
    return handle_of<Handle>(ranges.text(text));
  });
}

int NVTX_API push_event(const nvtxEventAttributes_t* event) {
  return push(0, [&](RangeRecorder& ranges) { return message_of(ranges, event); });
}
int NVTX_API push_text(const char* text) {
  return push(0, [&](RangeRecorder& ranges) { return ranges.text(safe(text)); });
}
int NVTX_API push_wide(const wchar_t* text) {
  return push(0, [&](RangeRecorder& ranges) { return ranges.text(narrow(text)); });
}
int NVTX_API pop_any() { return pop(0); }
nvtxRangeId_t NVTX_API start_event(const nvtxEventAttributes_t* event) {
  return start(0, [&](RangeRecorder& ranges) { return message_of(ranges, event); });
}
nvtxRangeId_t NVTX_API start_text(const char* text) {
  return start(0, [&](RangeRecorder& ranges) { return ranges.text(safe(text)); });
}
nvtxRangeId_t NVTX_API start_wide(const wchar_t* text) {
  return start(0, [&](RangeRecorder& ranges) { return ranges.text(narrow(text)); });
}
void NVTX_API end_range(nvtxRangeId_t id) { end(id); }

int NVTX_API domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  return push(number_of(domain), [&](RangeRecorder& ranges) { return message_of(ranges, event); });
}
int NVTX_API domain_pop(nvtxDomainHandle_t domain) { return pop(number_of(domain)); }
nvtxRangeId_t NVTX_API domain_start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  return start(number_of(domain), [&](RangeRecorder& ranges) { return message_of(ranges, event); });
}
void NVTX_API domain_end(nvtxDomainHandle_t, nvtxRangeId_t id) { end(id); }
nvtxStringHandle_t NVTX_API register_text(nvtxDomainHandle_t, const char* text) {
  return registered<nvtxStringHandle_t>(safe(text));
}
nvtxStringHandle_t NVTX_API register_wide(nvtxDomainHandle_t, const wchar_t* text) {
  return registered<nvtxStringHandle_t>(narrow(text));
}
nvtxDomainHandle_t NVTX_API create_domain(const char* name) {
  return registered<nvtxDomainHandle_t>(safe(name));
}
nvtxDomainHandle_t NVTX_API create_wide_domain(const wchar_t* name) {
  return registered<nvtxDomainHandle_t>(narrow(name));
}

// One module's table: where the functions of its calls are to be put.
class CallTable {
 public:
  CallTable(const NvtxExportTableCallbacks& callbacks, NvtxCallbackModule module) {
    if (callbacks.GetModuleFunctionTable(module, &table_, &size_) == 0) size_ = 0;
  }
  template <typename Function>
  void set(unsigned int id, Function* function) {
    if (id < size_ && table_[id] != nullptr)
      *table_[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  }

 private:
  NvtxFunctionTable table_ = nullptr;
  unsigned int size_ = 0;
};

void fill_tables(const NvtxExportTableCallbacks& callbacks) {
  CallTable core(callbacks, NVTX_CB_MODULE_CORE);
  core.set(NVTX_CBID_CORE_RangePushEx, push_event);
  core.set(NVTX_CBID_CORE_RangePushA, push_text);
  core.set(NVTX_CBID_CORE_RangePushW, push_wide);
  core.set(NVTX_CBID_CORE_RangePop, pop_any);
  core.set(NVTX_CBID_CORE_RangeStartEx, start_event);
  core.set(NVTX_CBID_CORE_RangeStartA, start_text);
  core.set(NVTX_CBID_CORE_RangeStartW, start_wide);
  core.set(NVTX_CBID_CORE_RangeEnd, end_range);
  CallTable domains(callbacks, NVTX_CB_MODULE_CORE2);
  domains.set(NVTX_CBID_CORE2_DomainRangePushEx, domain_push);
  domains.set(NVTX_CBID_CORE2_DomainRangePop, domain_pop);
  domains.set(NVTX_CBID_CORE2_DomainRangeStartEx, domain_start);
  domains.set(NVTX_CBID_CORE2_DomainRangeEnd, domain_end);
  domains.set(NVTX_CBID_CORE2_DomainRegisterStringA, register_text);
  domains.set(NVTX_CBID_CORE2_DomainRegisterStringW, register_wide);
  domains.set(NVTX_CBID_CORE2_DomainCreateA, create_domain);
  domains.set(NVTX_CBID_CORE2_DomainCreateW, create_wide_domain);
}

}  // namespace
}  // namespace dettax

// NOLINTNEXTLINE(readability-identifier-naming): NVTX's name
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(NvtxExportTableCallbacks)) return 0;
  dettax::begin_injection(false);
  dettax::fill_tables(*callbacks);
  return 1;
}
