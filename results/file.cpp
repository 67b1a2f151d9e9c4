#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include "harness/base/error.h"
#include "results/run_folder.h"

namespace dettax {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (in && in.peek() == std::ifstream::traits_type::eof() && !in.bad())
    throw Error(ErrorKind::config, path.string() + ": is empty");
  std::ostringstream text;
  if (in) text << in.rdbuf();
  if (!in || !text)
    throw Error(ErrorKind::config,
                path.string() + ": cannot be read: " + std::generic_category().message(errno));
  return text.str();
}

}  // namespace dettax
