#pragma once

#include <functional>
#include <string>

#include <sys/types.h>

namespace dettax {

// A program of others that runs until the object ends.
class BackgroundProgram {
 public:
  explicit BackgroundProgram(const std::string& command);
  ~BackgroundProgram();
  BackgroundProgram(const BackgroundProgram&) = delete;
  BackgroundProgram& operator=(const BackgroundProgram&) = delete;

 private:
  pid_t pid_;
};

// Asks every tenth of a second, for half a minute at most.
bool wait_until(const std::function<bool()>& condition);

// A port that nobody listened on a moment ago.
int free_port();

}  // namespace dettax
