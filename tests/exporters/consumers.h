#pragma once

// The real readers of what is exported. All are on the package list; a missing one fails the test and says so.

#include <string>

namespace dettax {

// Empty if the reader takes it, else what it says. Format as in exporter_table().
std::string refusal_by_consumer(const std::string& format, const std::string& text);

// What a command prints on both streams, and its exit code; `text` lies in a file whose path replaces FILE in it.
struct Answer {
  int code = -1;
  std::string text;
};
Answer ask(const std::string& command, const std::string& text = "");

}  // namespace dettax
