#include "profiles/cupti/buffer_pool.h"

#include <cstring>
#include <string>

#include <sys/mman.h>

#include "harness/base/error.h"

namespace dettax {

BufferPool::BufferPool(size_t count, size_t bytes) : count_(count), bytes_(bytes) {
  void* memory = mmap(nullptr, count * bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw Error(ErrorKind::infrastructure, "no memory for " + std::to_string(count) +
                                               " buffers of " + std::to_string(bytes) +
                                               " bytes for CUPTI");
  memory_ = static_cast<uint8_t*>(memory);
  free_.reserve(count);
  filled_.reserve(count);
  for (size_t i = count; i > 0; --i) free_.push_back(memory_ + (i - 1) * bytes);
}

BufferPool::~BufferPool() {
  // CUPTI may still write into what it has not given back.
  if (in_use_ == 0) munmap(memory_, count_ * bytes_);
}

uint8_t* BufferPool::ask() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) {
    ++refused_;
    return nullptr;
  }
  uint8_t* begin = free_.back();
  free_.pop_back();
  ++in_use_;
  return begin;
}

void BufferPool::give_back_filled(uint8_t* begin, size_t valid_bytes) {
  const std::scoped_lock lock(mutex_);
  if (in_use_ > 0) --in_use_;
  filled_.push_back({begin, valid_bytes});
}

std::optional<BufferPool::Filled> BufferPool::next_filled() {
  const std::scoped_lock lock(mutex_);
  if (next_ == filled_.size()) {
    filled_.clear();
    next_ = 0;
    return std::nullopt;
  }
  return filled_[next_++];
}

void BufferPool::recycle(const Filled& filled) {
  std::memset(filled.begin, 0, bytes_);
  const std::scoped_lock lock(mutex_);
  free_.push_back(filled.begin);
}

int64_t BufferPool::refused() const {
  const std::scoped_lock lock(mutex_);
  return refused_;
}

size_t BufferPool::in_use() const {
  const std::scoped_lock lock(mutex_);
  return in_use_;
}

}  // namespace dettax
