#pragma once

#include <cstddef>
#include <cstdint>

#include <cupti.h>

// What a test says to the library that plays CUPTI, and asks of it. One per process, as CUPTI is; found under the name fake_cupti.
struct FakeCupti {
  // How the next calls end.
  uint32_t version;
  CUptiResult subscribe, register_callbacks, enable, flush, dropped_call;
  const char* other_tool;  // who has CUPTI, where `subscribe` says that somebody has
  size_t dropped;          // what it says it lost
  size_t cut_bytes;        // off the end of each buffer that is given back
  bool keeps_buffers;      // flushing gives nothing back
  // What was done.
  bool enabled[64];
  int subscriptions, enable_calls, attribute_calls, refused;
  uint8_t* current;

  void (*reset)();
  // Writes a record into a buffer, if its kind is enabled or `unasked`.
  void (*emit)(const void* record, size_t bytes, bool unasked);
  void (*complete)();  // gives the buffer back
  void (*call_back)(CUpti_CallbackDomain domain, CUpti_CallbackId id, CUpti_ApiCallbackSite site);
};
using FakeCuptiEntry = FakeCupti*();
