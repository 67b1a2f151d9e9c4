#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "harness/launch/descriptor.h"

namespace dettax {

// Where one rank is. Written by the worker, read by the launcher, also after the worker's death.
// The text may be torn when it is read while it is written; it is for people.
struct RankStatus {
  static constexpr size_t kTextBytes = 160;

  std::atomic<int64_t> step{-1};  // in progress, counted from the last reset
  std::atomic<int64_t> ops{0};    // issued since start
  std::array<std::atomic<char>, kTextBytes> op{};

  void set_op(std::string_view text);
  std::string op_text() const;
};

// A page of memory shared by a worker process and its launcher.
class StatusPage {
 public:
  static constexpr int kMaxRanks = 64;
  struct Layout {
    std::atomic<int32_t> crashed_rank{-1};  // set by the worker's fatal-signal handler
    std::array<RankStatus, kMaxRanks> ranks{};
  };

  // A fresh page, and the same page on the other side.
  static StatusPage create();
  static StatusPage open(Descriptor memory);
  StatusPage(StatusPage&& other) noexcept;
  StatusPage& operator=(StatusPage&&) = delete;
  ~StatusPage();

  int descriptor() const { return memory_.get(); }
  Layout& layout() { return *layout_; }
  const Layout& layout() const { return *layout_; }

 private:
  StatusPage(Descriptor memory, bool fresh);
  Descriptor memory_;
  Layout* layout_ = nullptr;
};

}  // namespace dettax
