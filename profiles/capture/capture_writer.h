#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "profiles/capture/capture.h"
#include "profiles/capture/capture_file.h"

namespace dettax {

// Writes a capture file while the capture grows. No function throws: a profiler must not end the program that it watches. The file is
// made by the first append(), under a name that no other process can have, and never written over.
class CaptureWriter {
 public:
  // <folder>/<host>.<process>.rank<N>.capture; without a rank the part is left out. `more`: further lines of the head.
  CaptureWriter(const std::string& folder, const Capture& capture,
                const std::map<std::string, std::string>& more = {});
  ~CaptureWriter();
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;

  // What is new: names since the last call, these records, and the state of `capture`.
  void append(const Capture& capture, std::span<const DeviceRecord> records);
  void finish(std::string_view reason);
  // Lets go of the file without a byte more: for a child process, which shares it.
  void abandon();

  const std::string& path() const { return path_; }
  bool begun() const { return file_ >= 0; }
  const std::string& fault() const {
    return fault_;
  }  // why nothing more is written; empty if it is

 private:
  bool open();
  void write(ChunkKind kind, std::string_view bytes);
  bool write_all(std::string_view bytes);

  std::string path_, head_, fault_, last_state_;
  int file_ = -1;
  size_t names_written_ = 1;  // number 0 is the empty text in any table
};

}  // namespace dettax
