#include "tests/exporters/consumers.h"

#include <array>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "results/run_folder.h"

namespace dettax {
namespace {

// Its name is unlike that of any other test that runs at the same time.
class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("dettax-consumer-{}", ::getpid())) {
    write_file_atomically(path_, text);
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string refusal(const Answer& answer) {
  if (answer.code == 0) return "";
  return answer.text.empty() ? fmt::format("exit code {}", answer.code) : answer.text;
}

// What must be installed for it.
const char* package_of(const std::string& program) {
  if (program == "promtool") return "prometheus";
  if (program == "cmark-gfm") return "cmark-gfm";
  return "python3";
}

std::string missing(const std::string& program) {
  if (ask("command -v " + program).code == 0) return "";
  return fmt::format("install {} (it is on the package list)", package_of(program));
}

}  // namespace

Answer ask(const std::string& command, const std::string& text) {
  const TextFile file(text);
  std::string whole = command;
  for (size_t at = 0; (at = whole.find("FILE", at)) != std::string::npos;)
    whole.replace(at, 4, file.path());
  Answer answer;
  FILE* pipe = ::popen(("{ " + whole + "; } 2>&1").c_str(), "r");
  if (pipe == nullptr) return answer;
  std::array<char, 4096> piece{};
  for (size_t read = 0; (read = std::fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    answer.text.append(piece.data(), read);
  const int status = ::pclose(pipe);
  answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return answer;
}

std::string refusal_by_consumer(const std::string& format, const std::string& text) {
  const std::string script = DETTAX_SOURCE_DIR "/tests/exporters/consumer.py";
  if (format == "markdown") {
    const std::string absent = missing("cmark-gfm");
    return absent.empty() ? refusal(ask("cmark-gfm --extension table FILE", text)) : absent;
  }
  if (format == "openmetrics") {
    const std::string absent = missing("promtool");
    if (!absent.empty()) return absent;
    const std::string first = refusal(ask("promtool check metrics < FILE", text));
    if (!first.empty()) return "promtool: " + first;
  }
  return refusal(ask("/usr/bin/python3 " + script + " " + format + " FILE", text));
}

}  // namespace dettax
