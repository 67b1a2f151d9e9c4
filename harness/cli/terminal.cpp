#include "harness/cli/terminal.h"

#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

namespace dettax {
namespace {

constexpr int kWidthElsewhere = 100;
constexpr int kWidthLeast = 40;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets any
  return value == nullptr ? "" : value;
}

}  // namespace

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }

int terminal_width(int descriptor) {
  winsize size{};
  if (!is_terminal(descriptor) || ::ioctl(descriptor, TIOCGWINSZ, &size) != 0)
    return kWidthElsewhere;
  return size.ws_col < kWidthLeast ? kWidthElsewhere : size.ws_col;
}

bool use_colour(const std::string& choice, int descriptor) {
  if (choice == "always") return true;
  if (choice == "never") return false;
  return is_terminal(descriptor) && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

}  // namespace dettax
