#include "profiles/capture/capture_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "profiles/capture/capture_file.h"
#include "profiles/capture/trace_of_capture.h"
#include "profiles/import/byte_source.h"

namespace dettax {
namespace {

std::string all_bytes(const std::filesystem::path& file) {
  const std::unique_ptr<ByteSource> source = open_bytes(file);
  std::string bytes;
  for (;;) {
    const size_t at = bytes.size(), more = std::max(at, size_t{1} << 16U);
    bytes.resize(at + more);
    const size_t got = source->read(bytes.data() + at, more);
    bytes.resize(at + got);
    if (got == 0) return bytes;
  }
}

class Reader {
 public:
  Reader(const std::filesystem::path& file, const ImportOptions& options)
      : name_(file.string()), salvage_(options.salvage), bytes_(all_bytes(file)) {}

  Capture read() {
    if (kCaptureMagic.starts_with(bytes_)) {
      capture_.unfinished = "the process was killed before it wrote anything";
      return std::move(capture_);
    }
    if (!std::string_view(bytes_).starts_with(kCaptureMagic))
      throw Error(ErrorKind::config, name_ + ": is no capture file");
    at_ = kCaptureMagic.size();
    while (at_ < bytes_.size() && !ended_) {
      if (!read_chunk()) break;
    }
    if (ended_ && at_ < bytes_.size())
      damage(at_, fmt::format("{} bytes stand behind its end", bytes_.size() - at_));
    if (!ended_ && capture_.unfinished.empty())
      capture_.unfinished =
          "the process ended without a word: what it had not yet written is missing";
    return std::move(capture_);
  }

 private:
  void damage(size_t at, const std::string& what) {
    if (!salvage_)
      throw Error(
          ErrorKind::config,
          fmt::format("{}: is damaged at byte {}, {}; --salvage takes what can be read of it",
                      name_, at, what));
    ++damaged_;
    capture_.losses.faults =
        fmt::format("{} of its chunks {} damaged", damaged_, damaged_ == 1 ? "is" : "are");
  }

  bool cut_off() {
    capture_.unfinished = fmt::format(
        "ends within a chunk at byte {}: the process was killed as it wrote, and what it had not "
        "yet "
        "written is missing",
        at_);
    return false;
  }

  // False: nothing more can be read.
  bool read_chunk() {
    ChunkHead head;
    if (bytes_.size() - at_ < sizeof(head)) return cut_off();
    std::memcpy(&head, bytes_.data() + at_, sizeof(head));
    if (head.head_sum != checksum(&head, offsetof(ChunkHead, head_sum))) {
      damage(at_, "where a chunk begins");
      return false;  // how long it is cannot be known
    }
    if (bytes_.size() - at_ - sizeof(head) < head.bytes) return cut_off();
    const std::string_view content(bytes_.data() + at_ + sizeof(head), head.bytes);
    const size_t begin = at_;
    at_ += sizeof(head) + head.bytes;
    if (head.sum != checksum(content.data(), content.size())) {
      damage(begin, fmt::format("in a chunk of {} bytes", head.bytes));
    } else if (!take(static_cast<ChunkKind>(head.kind), content)) {
      damage(begin,
             fmt::format("in a chunk of kind {}: it does not hold what it should", head.kind));
    }
    return true;
  }

  bool take(ChunkKind kind, std::string_view content) {
    switch (kind) {
      case ChunkKind::head:
        return take_lines(content, [this](auto key, auto value) { return take_head(key, value); });
      case ChunkKind::names:
        return take_names(content);
      case ChunkKind::records:
        return take_records(content);
      case ChunkKind::state:
        capture_.notes.clear();
        return take_lines(content, [this](auto key, auto value) { return take_state(key, value); });
      case ChunkKind::end:
        ended_ = true;
        return take_lines(content, [this](auto key, auto value) { return take_end(key, value); });
    }
    return false;
  }

  template <typename Take>
  static bool take_lines(std::string_view text, const Take& take) {
    while (!text.empty()) {
      const size_t end = text.find('\n');
      const std::string_view line = text.substr(0, end);
      const size_t equals = line.find('=');
      if (end == std::string_view::npos || equals == std::string_view::npos) return false;
      if (!take(line.substr(0, equals), line.substr(equals + 1))) return false;
      text.remove_prefix(end + 1);
    }
    return true;
  }

  template <typename Number>
  static bool number(std::string_view text, Number& to) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
    return error == std::errc() && end == text.data() + text.size();
  }

  bool take_head(std::string_view key, std::string_view value) {
    if (key == "host") capture_.host = value;
    if (key == "process") return number(value, capture_.process);
    if (key == "rank") return number(value, capture_.rank.emplace());
    if (key == "world_size") return number(value, capture_.world_size);
    return true;
  }

  bool take_state(std::string_view key, std::string_view value) {
    CaptureLosses& losses = capture_.losses;
    if (key == "start_ns") return number(value, capture_.start_ns);
    if (key == "end_ns") return number(value, capture_.end_ns);
    if (key == "flushed_ns") return number(value, capture_.flushed_ns);
    if (key == "dropped") return number(value, losses.dropped);
    if (key == "refused_buffers") return number(value, losses.refused_buffers);
    if (key == "broken_buffers") return number(value, losses.broken_buffers);
    if (key == "lost_ranges") return number(value, losses.lost_ranges);
    if (key == "unknown") return number(value, losses.unknown);
    if (key == "faults" && !value.empty()) losses.faults = value;
    if (key == "note") capture_.notes.emplace_back(value);
    return true;
  }

  bool take_end(std::string_view key, std::string_view value) {
    if (key == "reason" && value != "window")
      capture_.notes.push_back("the capture was ended by " + std::string(value) +
                               " in front of the end of its window");
    return true;
  }

  bool take_names(std::string_view content) {
    while (!content.empty()) {
      uint32_t number_and_length[2];
      if (content.size() < sizeof(number_and_length)) return false;
      std::memcpy(number_and_length, content.data(), sizeof(number_and_length));
      content.remove_prefix(sizeof(number_and_length));
      if (content.size() < number_and_length[1]) return false;
      // Where a chunk of names was left out, numbers behind it would be others.
      if (capture_.names.intern(content.substr(0, number_and_length[1])) != number_and_length[0])
        return false;
      content.remove_prefix(number_and_length[1]);
    }
    return true;
  }

  bool take_records(std::string_view content) {
    if (content.size() % sizeof(DeviceRecord) != 0) return false;
    for (size_t at = 0; at < content.size(); at += sizeof(DeviceRecord)) {
      DeviceRecord record;
      std::memcpy(&record, content.data() + at, sizeof(record));
      if (static_cast<uint8_t>(record.kind) >= kRecordKinds ||
          record.name >= capture_.names.size() || record.domain >= capture_.names.size())
        return false;
      capture_.records.push_back(record);
    }
    return true;
  }

  const std::string name_;
  const bool salvage_;
  const std::string bytes_;
  Capture capture_;
  size_t at_ = 0;
  int64_t damaged_ = 0;
  bool ended_ = false;
};

}  // namespace

Capture read_capture(const std::filesystem::path& file, const ImportOptions& options) {
  return Reader(file, options).read();
}

Trace read_capture_trace(const std::filesystem::path& file, const ImportOptions& options) {
  return trace_of_capture(read_capture(file, options), file.string(), options);
}

}  // namespace dettax
