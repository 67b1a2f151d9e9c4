#include "harness/device/cpu/fingerprint_parts.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "harness/base/fingerprint_kernel.h"

namespace dettax {
namespace {

// Less than this is done before another thread is awake.
constexpr int64_t kAloneBytes = int64_t{128} << 10;

// A part in units that are not cut: whole rows, or elements that fill whole vectors.
struct Units {
  explicit Units(const FingerprintPart& part)
      : width(static_cast<int64_t>(size_of(part.tensor.type))),
        elements(part.row_stride != 0 ? part.tensor.columns()
                                      : static_cast<int64_t>(kFingerprintAlignment)) {}
  int64_t width, elements;  // bytes of an element; elements of a unit

  // The first element behind the cut at this byte of the part.
  int64_t element_at(int64_t byte, int64_t count) const {
    const int64_t unit_bytes = elements * width;
    const int64_t unit = (std::max<int64_t>(byte, 0) + unit_bytes - 1) / unit_bytes;
    return std::min(count, unit * elements);
  }
};

Fingerprint of_elements(const FingerprintPart& part, int64_t begin, int64_t end) {
  const size_t width = size_of(part.tensor.type);
  const auto* data = static_cast<const std::byte*>(part.tensor.data);
  if (part.row_stride == 0)
    return fingerprint(data + static_cast<size_t>(begin) * width, static_cast<size_t>(end - begin),
                       width, part.first_index + static_cast<uint64_t>(begin));
  Fingerprint sum;
  const int64_t columns = part.tensor.columns();
  for (int64_t at = begin; at < end; at += columns)
    sum += fingerprint(data + static_cast<size_t>(at) * width, static_cast<size_t>(columns), width,
                       part.first_index + static_cast<uint64_t>(at / columns) * part.row_stride);
  return sum;
}

}  // namespace

std::vector<Fingerprint> fingerprint_parts(Team& team, std::span<const FingerprintPart> parts) {
  std::vector<int64_t> begins{0};  // of each part among the bytes of all
  for (const FingerprintPart& part : parts) begins.push_back(begins.back() + part.tensor.bytes());
  const int64_t total = begins.back();
  const int threads = total < kAloneBytes ? 1 : team.size();
  std::vector<std::vector<Fingerprint>> sums(static_cast<size_t>(threads),
                                             std::vector<Fingerprint>(parts.size()));
  const auto work = [&](int thread) {
    if (thread >= threads) return;
    const int64_t begin = total * thread / threads, end = total * (thread + 1) / threads;
    const auto first = std::upper_bound(begins.begin(), begins.end(), begin) - begins.begin() - 1;
    for (auto i = static_cast<size_t>(first); i < parts.size() && begins[i] < end; ++i) {
      const Units units(parts[i]);
      const int64_t count = parts[i].tensor.count();
      const int64_t from = units.element_at(begin - begins[i], count);
      const int64_t to = units.element_at(end - begins[i], count);
      if (from < to) sums[static_cast<size_t>(thread)][i] = of_elements(parts[i], from, to);
    }
  };
  if (threads == 1) {
    work(0);
  } else {
    team.run(work);
  }
  std::vector<Fingerprint> out = std::move(sums.front());
  for (size_t thread = 1; thread < sums.size(); ++thread) {
    for (size_t i = 0; i < out.size(); ++i) out[i] += sums[thread][i];
  }
  return out;
}

}  // namespace dettax
