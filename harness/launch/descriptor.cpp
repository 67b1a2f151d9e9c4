#include "harness/launch/descriptor.h"

#include <cerrno>
#include <system_error>

#include <unistd.h>

#include "harness/base/error.h"

namespace dettax {

void Descriptor::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void throw_errno(const std::string& what) {
  const int code = errno;
  throw Error(ErrorKind::infrastructure,
              what + ": " + std::error_code(code, std::generic_category()).message());
}

}  // namespace dettax
