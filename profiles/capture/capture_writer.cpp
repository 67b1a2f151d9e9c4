#include "profiles/capture/capture_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace dettax {
namespace {

void line(std::string& text, std::string_view key, std::string_view value) {
  std::string plain(value);
  std::replace(plain.begin(), plain.end(), '\n', ' ');
  text.append(key).append("=").append(plain).append("\n");
}
void line(std::string& text, std::string_view key, int64_t value) {
  line(text, key, std::string_view(std::to_string(value)));
}

std::string head_of(const Capture& capture, const std::map<std::string, std::string>& more) {
  std::string text;
  line(text, "host", capture.host);
  line(text, "process", capture.process);
  if (capture.rank) line(text, "rank", *capture.rank);
  line(text, "world_size", capture.world_size);
  for (const auto& [key, value] : more) line(text, key, value);
  return text;
}

std::string state_of(const Capture& capture) {
  std::string text;
  line(text, "start_ns", capture.start_ns);
  line(text, "end_ns", capture.end_ns);
  line(text, "flushed_ns", capture.flushed_ns);
  line(text, "dropped", capture.losses.dropped);
  line(text, "refused_buffers", capture.losses.refused_buffers);
  line(text, "broken_buffers", capture.losses.broken_buffers);
  line(text, "lost_ranges", capture.losses.lost_ranges);
  line(text, "unknown", capture.losses.unknown);
  line(text, "faults", capture.losses.faults);
  for (const std::string& note : capture.notes) line(text, "note", note);
  return text;
}

std::string file_name(const Capture& capture) {
  std::string name = capture.host.empty() ? "host" : capture.host;
  std::replace(name.begin(), name.end(), '/', '_');
  name += "." + std::to_string(capture.process);
  if (capture.rank) name += ".rank" + std::to_string(*capture.rank);
  return name;
}

std::string reason_of(int error) { return std::generic_category().message(error); }

}  // namespace

CaptureWriter::CaptureWriter(const std::string& folder, const Capture& capture,
                             const std::map<std::string, std::string>& more)
    : path_(folder + "/" + file_name(capture)), head_(head_of(capture, more)) {}

CaptureWriter::~CaptureWriter() {
  if (file_ >= 0) close(file_);
}

bool CaptureWriter::open() {
  if (file_ >= 0 || !fault_.empty()) return fault_.empty();
  // A process of the same number may have been here before.
  constexpr int kTries = 1000;
  const std::string stem = path_;
  for (int i = 0; i < kTries; ++i) {
    path_ = stem + (i == 0 ? "" : "." + std::to_string(i)) + ".capture";
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (file_ >= 0 || errno != EEXIST) break;
  }
  if (file_ < 0) {
    fault_ = path_ + ": cannot be made: " + reason_of(errno);
    return false;
  }
  if (!write_all(kCaptureMagic)) return false;
  write(ChunkKind::head, head_);
  return fault_.empty();
}

bool CaptureWriter::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      fault_ = path_ + ": cannot be written: " + reason_of(errno);
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void CaptureWriter::write(ChunkKind kind, std::string_view bytes) {
  if (!fault_.empty()) return;
  const ChunkHead head = chunk_head(kind, bytes);
  std::string chunk(sizeof(head), '\0');
  std::memcpy(chunk.data(), &head, sizeof(head));
  chunk.append(bytes);
  write_all(chunk);
}

void CaptureWriter::append(const Capture& capture, std::span<const DeviceRecord> records) {
  if (!open()) return;
  std::string names;
  for (; names_written_ < capture.names.size(); ++names_written_) {
    const std::string& text = capture.names[static_cast<uint32_t>(names_written_)];
    const uint32_t number_and_length[2] = {static_cast<uint32_t>(names_written_),
                                           static_cast<uint32_t>(text.size())};
    names.append(reinterpret_cast<const char*>(number_and_length), sizeof(number_and_length));
    names.append(text);
  }
  if (!names.empty()) write(ChunkKind::names, names);
  // Small enough that one call writes it whole.
  constexpr size_t kRecordsAChunk = 1U << 14U;
  for (size_t at = 0; at < records.size(); at += kRecordsAChunk) {
    const auto part =
        std::as_bytes(records.subspan(at, std::min(kRecordsAChunk, records.size() - at)));
    write(ChunkKind::records, {reinterpret_cast<const char*>(part.data()), part.size()});
  }
  std::string state = state_of(capture);
  if (state != last_state_) write(ChunkKind::state, state);
  last_state_ = std::move(state);
}

void CaptureWriter::finish(std::string_view reason) {
  if (file_ < 0) return;
  std::string text;
  line(text, "reason", reason);
  write(ChunkKind::end, text);
  close(file_);
  file_ = -1;
  if (fault_.empty()) fault_ = path_ + ": is finished";
}

void CaptureWriter::abandon() {
  if (file_ >= 0) close(file_);
  file_ = -1;
  fault_ = "another process writes it";
}

}  // namespace dettax
