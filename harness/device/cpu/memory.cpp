#include "harness/device/cpu/memory.h"

#include <cerrno>
#include <string>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kHugeFromBytes = size_t{4} << 20;

size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

void unmap(void* data, size_t bytes) {
  // Fails only for addresses that were never mapped.
  (void)munmap(data, bytes);
}

std::byte* map(size_t bytes, size_t requested) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    throw Error(ErrorKind::infrastructure,
                "cannot allocate " + std::to_string(requested) +
                    " bytes of memory: " + std::generic_category().message(errno));
  }
  return static_cast<std::byte*>(data);
}

}  // namespace

Buffer allocate_pages(size_t bytes) {
  if (bytes == 0) return {};
  const bool huge = bytes >= kHugeFromBytes;
  const size_t page = huge ? kHugePageBytes : static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > SIZE_MAX - 2 * kHugePageBytes) {
    throw Error(ErrorKind::infrastructure,
                "cannot allocate " + std::to_string(bytes) + " bytes of memory");
  }
  const size_t length = round_up(bytes, page);
  std::byte* data = nullptr;
  if (huge) {
    // A huge page starts at a multiple of its size, so map more and give back both ends.
    std::byte* mapped = map(length + kHugePageBytes, bytes);
    const size_t skip = (page - reinterpret_cast<uintptr_t>(mapped) % page) % page;
    if (skip > 0) unmap(mapped, skip);
    unmap(mapped + skip + length, kHugePageBytes - skip);
    data = mapped + skip;
    // Only advice: without it the memory is as good, but slower.
    (void)madvise(data, length, MADV_HUGEPAGE);
  } else {
    data = map(length, bytes);
  }
  return Buffer(data, bytes, [length](void* start, size_t) { unmap(start, length); });
}

float* Scratch::floats(size_t count) {
  const size_t bytes = count * sizeof(float);
  if (bytes > buffer_.bytes()) {
    buffer_ = Buffer();  // never two generations at once
    buffer_ = allocate_pages(bytes);
  }
  return static_cast<float*>(buffer_.data());
}

}  // namespace dettax
