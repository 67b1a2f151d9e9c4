#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "harness/launch/descriptor.h"

namespace dettax {

// Notes when each of some connections was ended by its other side, also while nobody reads them: of
// a group that waits for its turn, so that who went first is still known when it is asked again. The
// descriptors must stay open as long as this lives.
class LinkWatch {
 public:
  explicit LinkWatch(const std::vector<int>& descriptors);
  ~LinkWatch();
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

  std::optional<std::chrono::steady_clock::time_point> closed(size_t index) const;

 private:
  void watch(std::vector<int> descriptors);

  const Descriptor stop_;
  std::vector<std::atomic<int64_t>> closed_ns_;  // 0: open
  std::thread thread_;
};

}  // namespace dettax
